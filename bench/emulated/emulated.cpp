// Eight emulated devices on few cores. How close is a step to the schedule's makespan?

#include "../device_work.hpp"

#include <gpipe/core/descriptions/optimizer.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/model/structure/items.hpp>
#include <gpipe/tools/report/report.hpp>
#include <gpipe/train/trainer.hpp>

#include <cstdint>
#include <cstdio>
#include <iostream>
#include <vector>

namespace {

constexpr int stages = 8, forward_ms = 2, backward_ms = 4;

// A layer whose device is busy for some time while the core is free.
struct device_work {
  template <class In>
  struct on {
    using output = In;
    static constexpr gpipe::work cost{.forward = 120'000'000, .backward_input = 240'000'000};
    static void forward(const auto&, const auto&) { bench::busy_for(1e-3 * forward_ms); }
    static void backward_input(const auto&, const auto&) { bench::busy_for(1e-3 * backward_ms); }
  };
};

// The first linear layer makes a gradient flow back to the first device.
struct net : gpipe::model<gpipe::input<float, 1>, gpipe::linear<4>, gpipe::repeat<stages, device_work>,
                          gpipe::softmax_cross_entropy> {};

struct figure {
  int micro_batches;
  double ideal_ms, taken_ms, step_ms;  // taken: the ideal with the layers' measured times
};

figure measure(int micro_batches, int steps, bool reports) {
  const auto count = static_cast<std::size_t>(micro_batches);
  const std::vector<float> inputs(count, 1.0F);
  const std::vector<std::int32_t> labels(count, 0);
  const auto batch = gpipe::batch(micro_batches).with("inputs", inputs).with("labels", labels);
  gpipe::trainer<net, gpipe::sgd> training(gpipe::plan_options{.stages = stages,
                                                               .micro_batches = micro_batches,
                                                               .micro_batch_size = 1,
                                                               .recompute = gpipe::recompute_mode::never});
  training.step(batch);
  training.reset_report();
  std::vector<double> ms;
  for (int i = 0; i < steps; ++i) ms.push_back(1e3 * bench::timed([&] { training.step(batch); }));
  if (reports) gpipe::write_report(std::cout, training.report());
  double busy_ms = 0;  // of a micro-batch in a stage, mean
  for (const auto& s : training.report())
    busy_ms += 1e-6 *
               static_cast<double>(s.busy(gpipe::action_kind::forward) + s.busy(gpipe::action_kind::backward) +
                                   s.busy(gpipe::action_kind::backward_input)) /
               (stages * steps * micro_batches);
  const double ticks = micro_batches + stages - 1;
  return {micro_batches, (forward_ms + backward_ms) * ticks, busy_ms * ticks, bench::median(ms)};
}

}  // namespace

int main() {
  bench::print_environment();

  std::vector<figure> figures;
  for (const int micro_batches : {8, 16, 32}) figures.push_back(measure(micro_batches, 9, micro_batches == 32));

  std::printf("\n%d stages, %d ms forward, %d ms backward; median of 9 steps\n", stages, forward_ms, backward_ms);
  std::printf("  M  ideal ms  with their times  step ms        ideal / step  with times / step\n");
  for (const figure& f : figures)
    std::printf("%3d  %8.1f  %16.1f  %7.1f  %18.3f  %17.3f\n", f.micro_batches, f.ideal_ms, f.taken_ms, f.step_ms,
                f.ideal_ms / f.step_ms, f.taken_ms / f.step_ms);
  std::printf("torch.distributed.pipelining, M = 32 (see README.md): 0.65 with GPipe's schedule, 0.77 with 1F1B\n\n");

  bench::result("emulated.share_of_layers", figures.back().taken_ms / figures.back().step_ms, "ratio");
  bench::result("emulated.share", figures.back().ideal_ms / figures.back().step_ms, "ratio");
}
