#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <span>
#include <thread>
#include <vector>

#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/plan/summary.hpp>
#include <gpipe/tools/report/breakdown.hpp>

#include "support/small_training.hpp"

// Measured costs of layers.

using namespace gpipe;
using namespace laws;
using namespace small;

namespace {

/// Copies its input. Forward sleeps `Halves` half milliseconds, backward twice as long; sleeping leaves the core free.
template <int Halves>
struct sleeper {
  template <class In>
  struct on;
  template <class T, int N>
  struct on<tensor<T, N>> {
    using output = tensor<T, N>;
    static constexpr work cost{.forward = 60'000'000, .backward_input = 120'000'000};
    static constexpr auto half = std::chrono::microseconds(500);
    static void forward(const auto&, const auto& a) {
      std::this_thread::sleep_for(Halves * half);
      loop(a.samples() * N, [&](int i) { a.out()[i] = a.in()[i]; });
    }
    static void backward_input(const auto&, const auto& a) {
      std::this_thread::sleep_for(2 * Halves * half);
      loop(a.samples() * N, [&](int i) { a.in_gradient()[i] = a.out_gradient()[i]; });
    }
  };
};

/// The linear layer makes a gradient flow back through the sleepers.
struct sleepers : model<input<float, 1>, linear<4>, sleeper<10>, repeat<10, sleeper<1>>, softmax_cross_entropy> {};

}  // namespace

TEST_CASE("a plan by measured costs cuts an unbalanced network where its time is, and predicts the gain") {
  // By the analytic costs all sleepers are equal, so the half with the long sleeper would take 15 of 20 units.
  const std::vector<float> inputs(4);
  const std::vector<std::int32_t> kinds(4);
  const batch four = batch(4).with("inputs", inputs).with("labels", kinds);
  plan_options options{.stages = 2, .micro_batches = 4, .micro_batch_size = 1, .recompute = recompute_mode::never};
  trainer<sleepers, sgd> by_analysis(options);
  const measured_profile costs = by_analysis.profile_layers(four, 4);
  options.profile = costs.view();
  trainer<sleepers, sgd> by_measurement(options);
  const auto predicted_ms = [&](const step_plan& plan) {
    const step_plan by_costs = make_plan(network_of<sleepers>, options, {plan.first[1]});
    return 1e-9 * static_cast<double>(step_time(network_of<sleepers>, by_costs));
  };
  const double predicted_gain = predicted_ms(by_analysis.plan()) / predicted_ms(by_measurement.plan());
  // A sleep never ends early, so that a step takes at least the sleeps of its busiest stage: 1.5 ms for each
  // micro-batch and half millisecond of forward. A busy machine takes longer, so that the two times are not compared.
  const auto takes_its_sleeps = [&](trainer<sleepers, sgd>& t) {
    const int first_of_second = t.plan().first[1], in_first = 10 + first_of_second - 2, in_second = 20 - in_first;
    t.reset_report();
    t.step(four);
    return breakdown_of(t.report()).step_ms() >= 4 * 1.5 * (std::max)(in_first, in_second);
  };
  CHECK(takes_its_sleeps(by_analysis));
  CHECK(takes_its_sleeps(by_measurement));
  CHECK(by_measurement.plan().first[1] < by_analysis.plan().first[1]);
  CHECK(by_measurement.parameter_hash() == by_analysis.parameter_hash());
  CHECK(predicted_gain > 1.15);
}

TEST_CASE("after a failed measurement no layer is timed") {
  training t(two);
  const std::span<const float> rows(x);
  CHECK_THROWS_WITH_AS(
      t.profile_layers(batch(2).with("inputs", rows.first(8)).with("labels", std::span(labels).first(2))),
      doctest::Contains("no full micro-batch was timed"), error);
  t.step(all);
  CHECK_THROWS_AS(t.layer_profile(), error);
  CHECK(t.profile_layers(all, 1).layers.size() == 4);
}

TEST_CASE("layers are not measured between an accumulated call and its step, whose gradients would be lost") {
  training t(two), undisturbed(two);
  for (training* it : {&t, &undisturbed}) it->accumulate(all), it->accumulate(all);
  CHECK_THROWS_WITH_AS(t.profile_layers(all, 1),
                       doctest::Contains("the gradients of 2 accumulated calls wait for a step; take the step, or call "
                                         "discard_accumulated"),
                       error);
  for (training* it : {&t, &undisturbed}) it->step(all);
  CHECK(t.parameter_hash() == undisturbed.parameter_hash());
  CHECK(t.profile_layers(all, 1).layers.size() == 4);
  t.accumulate(all);
  t.discard_accumulated();
  CHECK(t.profile_layers(all, 1).layers.size() == 4);
}
