// optimize: yes

// Several losses in one model: the total is the sum of each loss's mean times its factor, its gradient accordingly, and
// no cut, schedule or replica changes a bit.

#include <gpipe/train/trainer.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include <gpipe/layer.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/train/data/dataset.hpp>

using namespace gpipe;

namespace {

template <class T, class... Items>
using after_trunk = model<input<T, 6>, linear<7>, gelu, Items...>;
using early_loss = with_field<"labels", "group", softmax_cross_entropy>;

// A second head and a third loss between the trunk and the main loss.
template <class T>
struct joint : after_trunk<T, stash<"trunk">, linear<3>, auxiliary<"early", 400, early_loss>, linear<2>,
                           auxiliary<"value", 250, mean_squared_error>, pop<"trunk">, concat<>, linear<4>,
                           softmax_cross_entropy> {};
// Each of the losses alone, in a model that has all layers before it.
struct main_alone : after_trunk<double, stash<"trunk">, linear<3>, linear<2>, pop<"trunk">, concat<>, linear<4>,
                                softmax_cross_entropy> {};
struct early_alone : after_trunk<double, linear<3>, early_loss> {};
struct value_alone : after_trunk<double, linear<3>, linear<2>, mean_squared_error> {};

template <class T>
struct data_of {
  std::vector<T> x, targets, weights;
  std::vector<std::int32_t> labels, group;
  explicit data_of(int samples) {
    auto unit = [at = std::uint32_t{0}]() mutable { return T(2 * uniform(draw({}, ++at, 0).word[0]) - 1); };
    for (int i = 0; i < samples; ++i) {
      for (int j = 0; j < 6; ++j) x.push_back(unit());
      for (int j = 0; j < 2; ++j) targets.push_back(unit());
      weights.push_back(T(1.5) + unit());
      labels.push_back(i % 4), group.push_back(i * i % 3);
    }
  }
  batch whole(bool main = true, bool early = true, bool value = true) const {
    batch b(static_cast<int>(labels.size()));
    b.with("inputs", x).with("weights", weights);
    if (main) b.with("labels", labels);
    if (early) b.with("group", group);
    if (value) b.with("targets", targets);
    return b;
  }
};

using doubles = std::vector<double>;
doubles sum_of(const doubles& a, double factor, const doubles& b) {
  doubles sum = a;
  for (std::size_t i = 0; i < a.size(); ++i) sum[i] += factor * b[i];
  return sum;
}
void near(const doubles& got, const doubles& want) {
  REQUIRE(got.size() == want.size());
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(std::fabs(got[i] - want[i]) < 1e-13);
}

plan_options cut_in(int stages) { return {.stages = stages, .micro_batches = 3, .micro_batch_size = 4}; }

}  // namespace

TEST_CASE("loss and gradient are the sums of those of each loss alone, times its factor") {
  const data_of<double> data(11);
  trainer<joint<double>, sgd> all(cut_in(2), sgd{});
  trainer<main_alone, sgd> main(cut_in(1), sgd{});
  trainer<early_alone, sgd> early(cut_in(1), sgd{});
  trainer<value_alone, sgd> value(cut_in(1), sgd{});
  // The positions of layers with parameters: in `all`, and in each model.
  struct position {
    int all, main, early, value;
  };
  const position positions[] = {{0, 0, 0, 0}, {2, 2, 2, 2}, {4, 3, -1, 3}, {7, 5, -1, -1}};
  const char* const names[] = {"weight", "bias"};
  for (const position& p : positions)
    for (const char* name : names) {
      const doubles values = all.parameter<double>(p.all, name);
      main.array(p.main, name).set(values);
      if (p.early >= 0) early.array(p.early, name).set(values);
      if (p.value >= 0) value.array(p.value, name).set(values);
    }
  const step_result found = all.step(data.whole()), a = main.step(data.whole(true, false, false)),
                    b = early.step(data.whole(false, true, false)), c = value.step(data.whole(false, false, true));
  CHECK(found.loss == doctest::Approx(a.loss + 0.4 * b.loss + 0.25 * c.loss).epsilon(1e-14));
  CHECK(found.loss_named("main").loss == a.loss);
  CHECK(found.loss_named("early").loss == b.loss);
  CHECK(found.loss_named("value").loss == c.loss);
  CHECK(found.accuracy() == a.accuracy());
  CHECK(found.loss_named("early").accuracy() == b.accuracy());
  CHECK_THROWS_WITH_AS(found.loss_named("value").accuracy(), doctest::Contains("has no accuracy"), error);
  for (const position& p : positions)
    for (const char* name : names) {
      doubles want = main.array(p.main, name).gradient<double>();
      if (p.early >= 0) want = sum_of(want, 0.4, early.array(p.early, name).gradient<double>());
      if (p.value >= 0) want = sum_of(want, 0.25, value.array(p.value, name).gradient<double>());
      near(all.array(p.all, name).gradient<double>(), want);
    }
}

TEST_CASE("the gradient is the derivative of the total") {
  const data_of<double> data(7);
  trainer<joint<double>, sgd> t(cut_in(3), sgd{});
  const double weight = t.step(data.whole(), 0).weight, h = 1e-5;
  for (const int layer : {0, 2, 4, 7}) {
    doubles values = t.parameter<double>(layer, "weight");
    const doubles gradient = t.array(layer, "weight").gradient<double>();
    const auto loss_at = [&](std::size_t i, double value) {
      const double before = std::exchange(values[i], value);
      t.array(layer, "weight").set(values);
      values[i] = before;
      return t.evaluate(data.whole()).loss;
    };
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double x = values[i];
      CHECK(std::fabs((loss_at(i, x + h) - loss_at(i, x - h)) / (2 * h) - gradient[i] / weight) < 1e-8);
    }
    t.array(layer, "weight").set(values);
  }
}

TEST_CASE("no cut, schedule, recompute mode or replica changes a bit of any loss") {
  const data_of<float> data(23);
  struct run {
    std::uint64_t hash;
    double total, early, value;
    bool operator==(const run&) const = default;
  };
  const auto train = [&](plan_options options) {
    options.micro_batches = 4 / options.replicas, options.micro_batch_size = 6;
    trainer<joint<float>, adam> t(options, adam{});
    step_result found;
    for (int step = 0; step < 3; ++step) {
      t.accumulate(data.whole());
      found = t.step(data.whole());
    }
    return run{t.parameter_hash(), found.loss, found.loss_named("early").loss, found.loss_named("value").loss};
  };
  const run one = train({.stages = 1}), pair = train({.stages = 1, .replicas = 2});
  for (const int stages : {2, 4}) {
    CHECK(train({.stages = stages}) == one);
    CHECK(train({.stages = stages, .schedule = schedule_kind::one_f_one_b}) == one);
    CHECK(train({.stages = stages, .schedule = schedule_kind::zb_h1}) == one);
    CHECK(train({.stages = stages, .recompute = recompute_mode::always}) == one);
    CHECK(train({.stages = stages, .replicas = 2}) == pair);
  }
}

TEST_CASE("an evaluation reports every loss over a whole dataset, and a prediction needs no field of a loss") {
  const data_of<double> data(23);
  trainer<joint<double>, sgd> t(cut_in(2), sgd{});
  dataset parts;
  parts.with("inputs", 6, data.x).with("weights", 1, data.weights).with("targets", 2, data.targets);
  parts.with("labels", 1, data.labels).with("group", 1, data.group);
  const step_result whole = t.evaluate(parts);
  trainer<joint<double>, sgd> wide(plan_options{.stages = 1, .micro_batches = 1, .micro_batch_size = 23}, sgd{});
  const step_result once = wide.evaluate(data.whole());
  CHECK(whole.loss == doctest::Approx(once.loss).epsilon(1e-13));
  for (const char* name : {"main", "early", "value"})
    CHECK(whole.loss_named(name).loss == doctest::Approx(once.loss_named(name).loss).epsilon(1e-13));
  CHECK(t.predict(batch(4).with("inputs", doubles(24, 0.5))).samples() == 4);
}

TEST_CASE("losses with other sums of weights are refused, and the step changes nothing") {
  using ignoring_loss = softmax_cross_entropy_with<cross_entropy{.ignored = -1}>;
  struct ignoring
      : model<input<float, 6>, linear<4>, auxiliary<"early", 500, with_field<"labels", "group", ignoring_loss>>,
              softmax_cross_entropy> {};
  data_of<float> data(6);
  trainer<ignoring, sgd> t(cut_in(1), sgd{});
  const auto given = [&] {
    return batch(6).with("inputs", data.x).with("labels", data.labels).with("group", data.group);
  };
  t.step(given());
  const auto before = t.parameter_hash();
  data.group[2] = -1;
  const char* const message =
      "the weights of the loss \"early\" sum to 5, but those of the main loss to 6; give both the same weights";
  CHECK_THROWS_WITH_AS(t.step(given()), doctest::Contains(message), error);
  CHECK_THROWS_WITH_AS(t.accumulate(given()), doctest::Contains(message), error);
  CHECK(t.parameter_hash() == before);
  CHECK(t.evaluate(given()).loss_named("early").weight == 5);  // each mean is by its own weights
  data.group[2] = 0;
  t.step(given());
  CHECK(t.parameter_hash() != before);
}
