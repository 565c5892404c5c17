#include <cstdint>
#include <iostream>
#include <vector>

#include <gpipe/cuda/cuda.hpp>
#include <gpipe/data.hpp>
#include <gpipe/plan.hpp>
#include <gpipe/train.hpp>

using namespace gpipe;

struct net : model<input<float, 4>, linear<8>, gelu, linear<2>, softmax_cross_entropy> {};
using two_stages = plan<net, stages<2>, micro_batches<4>, micro_batch_size<2>>;

int main() {
  const std::vector<float> inputs(8 * 4, 1.0F);
  const std::vector<std::int32_t> labels(8, 1);
  try {
    trainer<net, adam, cuda_device> training{two_stages{}, adam{.learning_rate = 1e-3}};
    std::cout << "loss " << training.step(batch(8).with("inputs", inputs).with("labels", labels)).loss << '\n';
  } catch (const error& e) {
    std::cout << "as there is no GPU: " << e.what() << '\n';
  }
}
