#include <iostream>

#include <gpipe.hpp>

struct net : gpipe::model<gpipe::input<float, 2>, gpipe::linear<16>, gpipe::relu, gpipe::linear<2>,
                          gpipe::softmax_cross_entropy> {};

int main() {
  // On which side of the diagonal does a point lie?
  std::vector<float> points(256 * 2);
  std::vector<std::int32_t> sides(256);
  for (std::uint32_t i = 0; i < 256; ++i) {
    for (std::uint32_t j = 0; j < 2; ++j) points[2 * i + j] = gpipe::uniform(gpipe::draw({}, i, j).word[0]) - 0.5F;
    sides[i] = points[2 * i] > points[2 * i + 1];
  }
  const auto data = gpipe::dataset{}.with("inputs", 2, points).with("labels", 1, sides);

  gpipe::trainer<net, gpipe::adam> training{
      gpipe::plan_options{.stages = 2, .micro_batches = 4, .micro_batch_size = 16}, gpipe::adam{.learning_rate = 1e-2}};
  for (int epoch = 0; epoch < 20; ++epoch)
    for (const gpipe::batch& part : data.batches(64)) training.step(part);
  const double accuracy = training.evaluate(data).accuracy();
  std::cout << "gpipe from Conan learns: " << (accuracy > 0.95 ? "yes" : "no") << '\n';
  return accuracy > 0.95 ? 0 : 1;
}
