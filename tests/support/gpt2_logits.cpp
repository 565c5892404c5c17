// Takes a GPT-2 in Hugging Face's names, writes the logits of some texts and what it writes on from them, and gives the
// model back: gpt2_logits FOLDER. Beside train/checkpoint/gpt2_logits.py.

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include <gpipe.hpp>
#include <gpipe/model/gpt2.hpp>

using namespace gpipe;

namespace {

constexpr int tokens = 32;
using tiny = gpt2<2, 48, 3, tokens, 97>;

template <class T>
void write(const std::string& path, const T& values) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(values.data()),
             static_cast<std::streamsize>(values.size() * sizeof values[0]));
}

}  // namespace

int main(int, char** words) {
  const std::string folder = words[1];
  std::ifstream file(folder + "/tokens.i32", std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  std::vector<std::int32_t> texts(bytes.size() / sizeof(std::int32_t));
  for (std::size_t i = 0; i < texts.size(); ++i) bytes.copy(reinterpret_cast<char*>(&texts[i]), 4, 4 * i);

  const int samples = static_cast<int>(texts.size()) / tokens;
  trainer<tiny, adamw> training{plan_options{.stages = 3, .micro_batches = 2, .micro_batch_size = 2}};
  training.load(folder + "/model.safetensors", {.names = hugging_face_gpt2()});
  write(folder + "/logits.f32", training.predict(batch(samples).with("inputs", texts)).all());

  generator<tiny> writer(training);
  std::vector<std::int32_t> written;
  for (int i = 0; i < samples; ++i) {
    const auto begin = texts.begin() + static_cast<std::ptrdiff_t>(i) * tokens;
    const auto more = writer.generate(std::vector<std::int32_t>(begin, begin + 8), {.tokens = 20});
    written.insert(written.end(), more.begin(), more.end());
  }
  write(folder + "/written.i32", written);
  training.save(folder + "/ours.safetensors", {.names = hugging_face_gpt2("transformer.")});
}
