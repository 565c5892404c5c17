#include <gpipe/train/trainer.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <limits>
#include <thread>

#include <gpipe/plan/plan.hpp>
#include <gpipe/plan/summary.hpp>
#include <gpipe/record/breakdown.hpp>

#include <gpipe/layer/linear.hpp>
#include <gpipe/layer/softmax_cross_entropy.hpp>

#include "laws/layers.hpp"

// Same bits for every cut, failures, memory and weights: tests/laws.

using namespace gpipe;
using namespace laws;

namespace {

struct net : model<input<float, 4>, halve, cross, join, passing_loss> {};
using training = trainer<net, adam>;

/// Passes on what it gets, in so many half milliseconds forward and twice as many backward, and leaves the core free.
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
/// The linear layer is there so that a gradient flows back.
struct sleepers : model<input<float, 1>, linear<4>, sleeper<10>, repeat<10, sleeper<1>>, softmax_cross_entropy> {};

const std::vector<float> x{1, 0, 2, 1, 0, 1, 1, 3, 2, 2, 0, 1, 1, 1, 0, 2, 3, 1, 1, 0};
const std::vector<std::int32_t> labels{0, 1, 2, 3, 0};
const dataset data = dataset{}.with("inputs", 4, x).with("labels", 1, labels);
const batch all = batch(5).with("inputs", x).with("labels", labels);
constexpr plan_options two{.stages = 2, .micro_batches = 2, .micro_batch_size = 3};

}  // namespace

TEST_CASE("a trainer is made from a compiled plan, or from options") {
  using plan = gpipe::plan<net, stages<2>, micro_batches<2>, micro_batch_size<3>>;
  trainer compiled{plan{}, adam{.learning_rate = 0.01}};
  trainer<net, adam> chosen{two, adam{.learning_rate = 0.01}};
  CHECK(compiled.plan().first == chosen.plan().first);
  CHECK(compiled.step(all).loss == chosen.step(all).loss);
  CHECK(compiled.parameter_hash() == chosen.parameter_hash());
  trainer with_more{plan{}, sgd{}, training_options{}};
  CHECK(with_more.plan().options.moments == 1);  // the optimizer's
}

TEST_CASE("training lowers the loss, and reaches the same by the same way again") {
  std::uint64_t hashes[2];
  for (std::uint64_t& hash : hashes) {
    training t(two, adam{.learning_rate = 0.1});
    const double before = t.evaluate(data).loss;
    for (std::uint64_t epoch = 0; epoch < 10; ++epoch)
      for (const batch& b : data.shuffled(4, 1, epoch)) t.step(b);
    CHECK(t.evaluate(data).loss < before);
    CHECK(t.steps() == 20);
    hash = t.parameter_hash();
  }
  CHECK(hashes[0] == hashes[1]);
  CHECK(training(two, {}, {.seed = 1}).parameter_hash() != training(two).parameter_hash());
}

TEST_CASE("the rate is the optimizer's times the schedule's") {
  training t(two, adam{.learning_rate = 0.5}, {.rate = warm_up{.steps = 2}, .clip = 1});
  CHECK(t.rate() == 0.25);
  t.step(all);
  CHECK(t.rate() == 0.5);
}

TEST_CASE("an evaluation of a dataset goes over all of it, in batches as large as the plan's") {
  training t({.stages = 2, .micro_batches = 1, .micro_batch_size = 2});
  const outcome found = t.evaluate(data);  // 2 + 2 + 1
  CHECK(found.samples == 5);
  CHECK(found.weight == 5);
  CHECK(found.loss == doctest::Approx(training(two).evaluate(all).loss));
  const dataset none;
  CHECK_THROWS_WITH_AS(t.evaluate(none), doctest::Contains("the dataset has no samples"), error);
}

TEST_CASE("parameters, gradients and moments are read by slot and name") {
  training t(two);
  const std::vector<float> values{0.25F, -0.5F};
  t.set_parameter<float>(1, "weight", values);
  CHECK(t.parameter(1, "weight") == values);
  CHECK(t.moment(1, "weight", 0) == std::vector<float>{0, 0});
  t.step(all);
  CHECK(t.parameter(1, "weight") != values);
  CHECK(t.gradient(1, "weight")[0] != 0);
  CHECK(t.moment(1, "weight", 0)[0] == doctest::Approx(0.1 * t.gradient(1, "weight")[0] / 5));
  CHECK(t.moment(1, "weight", 1)[0] > 0);
}

TEST_CASE("a parameter that is not there, or is something else, is refused") {
  training t(two);
  const auto refused = [](auto call, const char* what) {
    CHECK_THROWS_WITH_AS(call(), doctest::Contains(what), error);
  };
  refused([&] { t.parameter(4, "weight"); }, "the model has no slot 4; slots are 0 to 3");
  refused([&] { t.parameter(-1, "weight"); }, "the model has no slot -1");
  refused([&] { t.gradient(1, "bias"); }, "layer 1 laws::cross: the layer has no parameter \"bias\"");
  refused([&] { t.parameter(0, "weight"); }, "the layer has no parameter \"weight\"");
  refused([&] { t.parameter<double>(1, "weight"); }, "its parameters are float");
  refused([&] { t.set_parameter<float>(1, "weight", std::vector<float>(3)); },
          "parameter \"weight\" has 2 elements, not 3; give it all of them");
  refused([&] { t.moment(1, "weight", 2); }, "the optimizer has no moment 2; it keeps 2 arrays");
  refused([&] { t.moment(1, "weight", -1); }, "the optimizer has no moment -1");
}

TEST_CASE("planned by what was measured, an unbalanced network gets faster by as much as the plan says") {
  // Analytically all sleepers are alike, and the half with the long one would take 15 of 20 units.
  const std::vector<float> inputs(4);
  const std::vector<std::int32_t> kinds(4);
  const batch four = batch(4).with("inputs", inputs).with("labels", kinds);
  plan_options options{.stages = 2, .micro_batches = 4, .micro_batch_size = 1, .recompute = recompute_mode::never};
  struct figures {
    double ms, reckoned_ms;
    std::uint64_t hash;
  };
  const auto fastest = [&](trainer<sleepers, sgd>& t, const profile& costs) {
    double ms = 1e9;
    for (int i = 0; i < 4; ++i) {
      t.forget();
      t.step(four);
      ms = std::min(ms, breakdown_of(t.report()).step_ms());
    }
    plan_options by_costs = t.plan().options;
    by_costs.measured = costs;
    const run_plan same_cut = make_plan(network_of<sleepers>, by_costs, {t.plan().first[1]});
    return figures{ms, 1e-9 * static_cast<double>(step_time(network_of<sleepers>, same_cut)), t.parameter_hash()};
  };
  trainer<sleepers, sgd> unknowing(options);
  const measured_profile costs = unknowing.measure(four, 2);
  const figures before = fastest(unknowing, costs.view());
  options.measured = costs.view();
  trainer<sleepers, sgd> knowing(options);
  const figures after = fastest(knowing, costs.view());

  CHECK(knowing.plan().first[1] < unknowing.plan().first[1]);
  CHECK(after.hash == before.hash);
  CHECK(before.reckoned_ms / after.reckoned_ms > 1.15);
  CHECK(before.ms > after.ms);
  const double gain_over_reckoned = before.ms / after.ms * after.reckoned_ms / before.reckoned_ms;
  CHECK(gain_over_reckoned > 0.88);
  CHECK(gain_over_reckoned < 1.12);
}

TEST_CASE("plans that are none are refused") {
  CHECK_THROWS_AS(training({.stages = 5}), error);
  CHECK_THROWS_AS(training({.micro_batches = 0}), error);
  CHECK_THROWS_AS(training({.stages = 2}, {}, {.cut = {1, 2}}), error);
}

TEST_CASE("a rate, a clip and a deadline that are none are refused, and change nothing") {
  training_options how;
  how.rate = [](std::uint64_t) { return std::numeric_limits<double>::quiet_NaN(); };
  training lost{two, adam{}, how};
  const auto before = lost.parameter_hash();
  CHECK_THROWS_WITH_AS(lost.step(all), doctest::Contains("the learning rate is "), error);
  CHECK(lost.parameter_hash() == before);
  how = {};
  how.clip = -1;
  training clipped{two, adam{}, how};
  CHECK_THROWS_WITH_AS(clipped.step(all), doctest::Contains("the largest norm is -1"), error);
  how = {};
  how.deadline = std::chrono::nanoseconds(0);
  CHECK_THROWS_WITH_AS((training{two, adam{}, how}), doctest::Contains("a deadline of 0 s"), error);
}
