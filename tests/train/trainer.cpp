#include <gpipe/train/trainer.hpp>

#include <doctest/doctest.h>

#include <limits>

#include <gpipe/layer/batch_norm.hpp>
#include <gpipe/plan/plan.hpp>

#include "instances.hpp"
#include "laws/layers.hpp"

// Same bits for every cut, failures, memory and weights: tests/laws.

using namespace gpipe;
using namespace laws;

namespace {

struct net : model<input<float, 4>, halve, cross, join, passing_loss> {};
using training = trainer<net, adam>;

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

TEST_CASE("a layer's state is read and written by slot and name") {
  struct averaging : model<input<float, 4>, halve, cross, join, batch_norm<>, passing_loss> {};
  trainer<averaging, adam> t(two);
  const std::vector<float> none(4, 0.0F), ones(4, 1.0F), far(4, 1e4F);
  CHECK(t.state(3, "mean") == none);
  CHECK(t.state(3, "variance") == ones);
  const auto hash = t.parameter_hash();
  const double loss = t.evaluate(all).loss;
  t.set_state<float>(3, "variance", far);
  CHECK(t.state(3, "variance") == far);
  CHECK(t.state(3, "mean") == none);
  CHECK(t.evaluate(all).loss != loss);
  CHECK(t.parameter_hash() == hash);
  t.step(all);
  CHECK(t.state(3, "mean") != none);
  CHECK(t.state(3, "variance")[0] < 1e4F);
  const auto refused = [](auto call, const char* what) {
    CHECK_THROWS_WITH_AS(call(), doctest::Contains(what), error);
  };
  refused([&] { t.state(3, "weight"); }, "the layer has no state \"weight\"; see its `state`");
  refused([&] { t.parameter(3, "mean"); }, "the layer has no parameter \"mean\"");
  refused([&] { t.state(0, "mean"); }, "the layer has no state");
  refused([&] { t.state(5, "mean"); }, "the model has no slot 5");
  refused([&] { t.state<double>(3, "mean"); }, "state \"mean\" is float; read it as that");
  refused([&] { t.set_state<float>(3, "mean", std::vector<float>(3)); }, "state \"mean\" has 4 elements, not 3");
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
  refused([&] { t.parameter<double>(1, "weight"); }, "parameter \"weight\" is float; read it as that");
  refused([&] { t.set_parameter<float>(1, "weight", std::vector<float>(3)); },
          "parameter \"weight\" has 2 elements, not 3; give it all of them");
  refused([&] { t.moment(1, "weight", 2); }, "the optimizer has no moment 2; it keeps 2 arrays");
  refused([&] { t.moment(1, "weight", -1); }, "the optimizer has no moment -1");
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
