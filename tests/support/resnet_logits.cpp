// Takes a ResNet in torchvision's names and layouts, writes the logits of some images, and gives the model back:
// resnet_logits FOLDER. Beside train/checkpoint/resnet_logits.py.

#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gpipe.hpp>
#include <gpipe/model/vision/resnet.hpp>
#include <gpipe/tools/names/torchvision.hpp>

using namespace gpipe;

int main(int, char** words) {
  const std::string folder = words[1];
  std::ifstream file(folder + "/images.f32", std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  std::vector<float> images(bytes.size() / sizeof(float));
  std::memcpy(images.data(), bytes.data(), images.size() * sizeof(float));

  const int samples = static_cast<int>(images.size()) / (3 * 64 * 64);
  trainer<resnet<18, 10, 64>, adamw> training{plan_options{.stages = 3, .micro_batches = 2, .micro_batch_size = 2}};
  training.load(folder + "/model.safetensors", {.names = torchvision_resnet()});
  const tensor_rows found = training.predict(batch(samples).with("inputs", images));
  const auto logits = found.all();
  std::ofstream(folder + "/logits.f32", std::ios::binary)
      .write(reinterpret_cast<const char*>(logits.data()),
             static_cast<std::streamsize>(logits.size() * sizeof logits[0]));
  training.save(folder + "/ours.safetensors", {.names = torchvision_resnet()});
}
