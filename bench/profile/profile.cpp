// One layer takes ten times as long as the others, and the analytic costs do not include that. Does a plan by measured
// costs gain as much as it predicts?

#include "../measure.hpp"

#include <gpipe/core/descriptions/optimizer.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/model/structure/items.hpp>
#include <gpipe/plan/summary.hpp>
#include <gpipe/train/trainer.hpp>

#include <sys/prctl.h>
#include <time.h>

#include <cstdint>
#include <cstdio>
#include <vector>

namespace {

constexpr int micro_batches = 16, steps = 5;

void sleep_us(long us) {
  // By default the kernel may wake a sleeping thread 50 us late, to combine several wakes.
  thread_local const int precise = prctl(PR_SET_TIMERSLACK, 1UL);
  static_cast<void>(precise);
  const timespec time{0, us * 1'000};
  clock_nanosleep(CLOCK_MONOTONIC, 0, &time, nullptr);
}

// A layer whose device is busy for some half milliseconds forward, twice as many backward, while the core is free. The
// analytic costs of all are equal.
template <int Halves>
struct device_work {
  template <class In>
  struct on {
    using output = In;
    static constexpr gpipe::work cost{.forward = 60'000'000, .backward_input = 120'000'000};
    static void forward(const auto&, const auto&) { sleep_us(500 * Halves); }
    static void backward_input(const auto&, const auto&) { sleep_us(1000 * Halves); }
  };
};

// The first linear layer makes a gradient flow back to the first device.
struct net : gpipe::model<gpipe::input<float, 1>, gpipe::linear<4>, gpipe::repeat<6, device_work<1>>, device_work<10>,
                          gpipe::repeat<16, device_work<1>>, gpipe::softmax_cross_entropy> {};
const gpipe::network& described = gpipe::network_of<net>;
using training = gpipe::trainer<net, gpipe::sgd>;

double step_ms(training& t, const gpipe::batch& batch) {
  t.step(batch);
  std::vector<double> ms;
  for (int i = 0; i < steps; ++i) ms.push_back(1e3 * bench::timed([&] { t.step(batch); }));
  return bench::median(ms);
}

double predicted_ms(const training& t, const gpipe::profile& costs) {
  gpipe::plan_options by_costs = t.plan().options;
  by_costs.profile = costs;
  const auto& first = t.plan().first;
  return 1e-9 * static_cast<double>(gpipe::step_time(
                    described, gpipe::make_plan(described, by_costs, {first.begin() + 1, first.end() - 1})));
}

}  // namespace

int main() {
  bench::print_environment();
  const std::vector<float> inputs(micro_batches);
  const std::vector<std::int32_t> labels(micro_batches);
  const auto batch = gpipe::batch(micro_batches).with("inputs", inputs).with("labels", labels);

  std::printf("stages  before ms  predicted  after ms  predicted    gain  predicted\n");
  double worst = 1e9;
  for (const int stages : {2, 3, 4}) {
    gpipe::plan_options options{.stages = stages,
                                .micro_batches = micro_batches,
                                .micro_batch_size = 1,
                                .recompute = gpipe::recompute_mode::never};
    training analytic(options);
    const gpipe::measured_profile costs = analytic.profile_layers(batch, 3);
    options.profile = costs.view();
    training measured(options);
    const double before = step_ms(analytic, batch), after = step_ms(measured, batch);
    const double before_predicted = predicted_ms(analytic, costs.view());
    const double after_predicted = predicted_ms(measured, costs.view());
    const double gain = before / after, gain_predicted = before_predicted / after_predicted;
    std::printf("%6d  %9.1f  %9.1f  %8.1f  %9.1f  %6.3f  %9.3f\n", stages, before, before_predicted, after,
                after_predicted, gain, gain_predicted);
    if (gain / gain_predicted < worst) worst = gain / gain_predicted;
  }
  std::printf("\nmedians of %d steps; the smallest ratio of measured gain to predicted gain:\n\n", steps);
  bench::result("profile.gain_over_predicted", worst, "ratio");
}
