// Two translation units of one program, compiled without RTTI.

#include <iostream>

#include "other.hpp"

int main() {
  const gpipe::dataset data = points();
  gpipe::trainer<net, gpipe::adam> training{
      gpipe::plan_options{.stages = 2, .micro_batches = 4, .micro_batch_size = 16}, gpipe::adam{.learning_rate = 1e-2}};
  const float before = last_bias(training);
  for (int epoch = 0; epoch < 20; ++epoch)
    for (const gpipe::batch& part : data.batches(64)) training.step(part);
  const bool learns = training.evaluate(data).accuracy() > 0.95 && last_bias(training) != before;
  std::cout << "two units train: " << (learns ? "yes" : "no") << '\n';
}
