// Uses what the README's program does not: more layers, mixed precision, a plan at run time, reports.

#include <iostream>

#include "../points.hpp"

struct net
    : gpipe::model<gpipe::input<float, 2>, gpipe::linear<16>, gpipe::batch_norm<>, gpipe::relu, gpipe::stash<"x">,
                   gpipe::linear<16>, gpipe::dropout<10>, gpipe::pop<"x">, gpipe::add, gpipe::reshape<4, 4>,
                   gpipe::layer_norm, gpipe::reshape<16>, gpipe::gelu, gpipe::linear<2>, gpipe::softmax_cross_entropy> {
};

int main() {
  const gpipe::dataset data = points();
  gpipe::training_options how{.max_grad_norm = 1, .cut = {4}};
  how.digest_calls = 2;
  gpipe::trainer<net, gpipe::adamw> training{
      gpipe::plan_options{.stages = 2, .micro_batches = 4, .micro_batch_size = 16, .precision = gpipe::precision::bf16},
      gpipe::adamw{.learning_rate = 1e-2}, how};
  for (const gpipe::batch& part : data.shuffled(64, 1, 2)) {
    training.accumulate(part);
    training.step(part);
    training.profile_layers(part);
  }
  gpipe::write_trace("step.json", training.trace());
  gpipe::write_timeline("step.svg", training.plan(), training.trace());
  gpipe::write_report(std::cout, training.report());
  std::cout << gpipe::describe(training.net(), training.plan()) << training.parameter(0, "weight").size()
            << training.predict(data).samples() << '\n';
}
