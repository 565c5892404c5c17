#include <gpipe/data.hpp>
#include <gpipe/plan.hpp>
#include <gpipe/train.hpp>

#include <cstdint>
#include <iostream>
#include <vector>

using namespace gpipe;

// The model: a list of layer types. The compiler deduces the shapes and checks every edge.
struct net : model<input<float, 64>, linear<512>, gelu, repeat<8, residual<layer_norm, linear<512>, gelu, linear<512>>>,
                   linear<10>, softmax_cross_entropy> {};

// The plan: the compiler computes and proves cut, schedule and memory. The bubble is the share of time without work.
using four_stages = plan<net, stages<4>, micro_batches<16>, micro_batch_size<8>>;
static_assert(four_stages::bubble() < 0.16);
static_assert(require_fits<four_stages, 64_MiB>());

int main() {
  // Random images of ten kinds, which differ in where they are bright.
  std::vector<float> images(256 * 64);
  std::vector<std::int32_t> kinds(256);
  for (std::uint32_t i = 0; i < 256; ++i) {
    kinds[i] = static_cast<std::int32_t>(i % 10);
    for (std::uint32_t j = 0; j < 64; ++j) images[64 * i + j] = uniform(draw({}, i, j).word[0]) + (j % 10 == i % 10);
  }
  const auto data = dataset{}.with("inputs", 64, images).with("labels", 1, kinds);

  trainer training{four_stages{}, adam{.learning_rate = 1e-3}};
  for (int epoch = 0; epoch < 5; ++epoch)
    for (const batch& part : data.batches(128)) std::cout << "loss " << training.step(part).loss << '\n';
  std::cout << "accuracy " << training.evaluate(data).accuracy() << '\n';
}
