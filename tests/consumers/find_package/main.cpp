#include <iostream>

#include "../points.hpp"
#include "scale.hpp"

struct net : gpipe::model<gpipe::input<float, 2>, gpipe::linear<16>, gpipe::relu, scale, gpipe::linear<2>,
                          gpipe::softmax_cross_entropy> {};

int main() {
  const gpipe::dataset data = points();
  gpipe::trainer<net, gpipe::adam> training{
      gpipe::plan_options{.stages = 2, .micro_batches = 4, .micro_batch_size = 16}, gpipe::adam{.learning_rate = 1e-2}};
  for (int epoch = 0; epoch < 20; ++epoch)
    for (const gpipe::batch& part : data.batches(64)) training.step(part);
  const double accuracy = training.evaluate(data).accuracy();
  std::cout << "an own layer learns: " << (accuracy > 0.95 ? "yes" : "no") << '\n';
}
