// sanitizers: address

#include <gpipe/runtime/binding/optimizer_update.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include <gpipe/core/descriptions/adafactor.hpp>
#include <gpipe/core/descriptions/lion.hpp>
#include <gpipe/core/descriptions/rmsprop.hpp>
#include <gpipe/device/host/host.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/layer/normalization/layer_norm.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;
using namespace gpipe::detail;

namespace {

struct loop_context {
  template <class F>
  void each(std::ptrdiff_t n, F f) const {
    for (std::ptrdiff_t i = 0; i < n; ++i) f(i);
  }
};

template <class T>
std::byte* bytes_of(std::vector<T>& values) {
  return reinterpret_cast<std::byte*>(values.data());
}

template <class T, class Optimizer>
void does_what_the_optimizer_does(const Optimizer& optimizer, dtype type) {
  const update_terms now{.step = 3, .rate = 0.1, .scale = 0.5};
  std::vector<T> p{1, 2, 3}, g{4, -5, 6}, m[2] = {{T(0.1), T(0.2), T(0.3)}, {1, 2, 3}};
  auto expected_p = p;
  std::vector<T> expected_m[2] = {m[0], m[1]};
  const auto rule = optimizer.template rule<T>(
      update_operands<T>{expected_p.data(), g.data(), {expected_m[0].data(), expected_m[1].data()}}, now);
  for (std::ptrdiff_t i = 0; i < 3; ++i) rule(i);

  const update_range all{3 * sizeof(T), bytes_of(p), bytes_of(g), {bytes_of(m[0]), bytes_of(m[1])}};
  const optimizer_update erased = optimizer_update::of<loop_context>(optimizer);
  CHECK(erased.moments() == Optimizer::moments);
  erased(loop_context{}, type, all, now);
  CHECK(p == expected_p);
  CHECK(p[0] != 1);
  for (int i = 0; i < 2; ++i) CHECK(m[i] == expected_m[i]);
}

struct net : model<input<float, 2>, linear<2>, linear<2>, layer_norm, softmax_cross_entropy> {};

struct plain {
  double learning_rate = 0.1;
  static constexpr int moments = 0;
  struct rule_for {
    void operator()(std::ptrdiff_t) const {}
  };
  template <class T>
  rule_for rule(const update_operands<T>&, const update_terms&) const {
    return {};
  }
};

}  // namespace

TEST_CASE("an optimizer_update computes the same as its optimizer") {
  does_what_the_optimizer_does<float>(sgd{.momentum = 0.9}, dtype::float32);
  does_what_the_optimizer_does<double>(sgd{.weight_decay = 0.1}, dtype::float64);
  does_what_the_optimizer_does<float>(adam{}, dtype::float32);
  does_what_the_optimizer_does<double>(adamw{.weight_decay = 0.1}, dtype::float64);
}

TEST_CASE("a group has its own rate and weight decay") {
  const parameter_groups groups(
      network_of<net>, {{.parameters = {"0.weight"}, .rate_factor = 0.5}, {.parameters = {"1.*"}, .weight_decay = 0}});
  optimizer_update erased = optimizer_update::of<loop_context>(sgd{.weight_decay = 0.5});
  erased.use(groups);
  const double expected[] = {2 - 0.5 * 0.1 * (1 + 0.5 * 2), 2 - 0.1 * 1, 2 - 0.1 * (1 + 0.5 * 2)};
  const int groups_of[] = {groups.of(0, 0), groups.of(1, 1), groups.of(0, 1)};
  for (int i = 0; i < 3; ++i) {
    std::vector<double> p{2}, g{1}, m{0};
    update_range one{sizeof(double), bytes_of(p), bytes_of(g), {bytes_of(m)}};
    one.group = groups_of[i];
    erased(loop_context{}, dtype::float64, one, {1, 0.1, 1});
    CHECK(p[0] == doctest::Approx(expected[i]).epsilon(1e-15));
  }
}

TEST_CASE("a group cannot change the weight decay of an optimizer that has none") {
  optimizer_update erased = optimizer_update::of<loop_context>(plain{});
  CHECK_THROWS_WITH_AS(
      erased.use(parameter_groups(network_of<net>, {{.parameters = {"*"}, .weight_decay = 0.5}})),
      "a group's weight_decay is 0.5, but the optimizer has no weight decay; leave it out, or add a member `double "
      "weight_decay` to the optimizer",
      error);
}

TEST_CASE("the trial differs between settings, also of rules that take signs or whole tensors") {
  const auto trial = [](const auto& optimizer) { return optimizer_update::of<host::context>(optimizer).trial(); };
  CHECK(trial(lion{}) == trial(lion{}));
  CHECK(trial(lion{}) != trial(lion{.beta2 = 0.98}));
  CHECK(trial(lion{}) != trial(lion{.weight_decay = 0.1}));
  CHECK(trial(adafactor{}) == trial(adafactor{}));
  CHECK(trial(adafactor{}) != trial(adafactor{.decay_power = 0.7}));
  CHECK(trial(adafactor{}) != trial(adafactor_with_momentum{}));
  CHECK(trial(adam{}) != trial(adam{.epsilon = 1e-7}));
}

TEST_CASE("an invalid setting is refused when the optimizer is bound") {
  CHECK_THROWS_WITH_AS(optimizer_update::of<loop_context>(adam{.beta1 = 1}),
                       "beta1 is 1; choose 0 or more, and less than 1", error);
}

TEST_CASE("a rate, a decay or an epsilon that the parameters' type does not hold is refused") {
  const auto finite = [](const auto& optimizer, dtype type, double rate) {
    const optimizer_update erased = optimizer_update::of<host::context>(optimizer);
    try {
      erased.require_finite(type, {.step = 1, .rate = rate});
      return std::string();
    } catch (const error& e) {
      return std::string(e.what());
    }
  };
  const auto either = [&](const auto& optimizer, double rate) {
    CHECK(finite(optimizer, dtype::float64, rate).empty());
    CHECK_MESSAGE(
        finite(optimizer, dtype::float32, rate).find("an update of the parameter 1 is not a finite float") == 0,
        finite(optimizer, dtype::float32, rate));
  };
  either(sgd{}, 1e39);
  either(adam{}, 1e38);  // times 10 in the first step
  either(adam{.epsilon = 1e-60}, 0.1);
  either(adamw{.weight_decay = 1e300}, 0.1);
  either(sgd{.weight_decay = 1e60}, 0.1);
  either(rmsprop{.epsilon = 1e-60}, 0.1);
  either(lion{.weight_decay = 1e60}, 0.1);
  CHECK(finite(sgd{}, dtype::float32, 0.1).empty());
  CHECK(finite(adam{}, dtype::float32, 1e30).empty());
  CHECK(finite(lion{}, dtype::float32, 0.1).empty());
  CHECK(finite(rmsprop{}, dtype::float32, 0.1).empty());
  CHECK(finite(adafactor{}, dtype::float32, 0.1).empty());
  CHECK(finite(adafactor{}, dtype::float32, 0).empty());
}

TEST_CASE_TEMPLATE("a tensor rule has its arrays where the plan lays them out, and nothing behind them", T, float,
                   double) {
  constexpr std::size_t rows = 20, columns = 30, guard = 4096;
  const shape extents{20, 30};
  constexpr tensor_rule_memory memory = tensor_memory_of<adafactor>;
  const std::size_t bytes = memory.bytes(extents, dtype_of<T>);
  std::vector<T> p(rows * columns), g(rows * columns), row(rows), column(columns);
  for (std::size_t i = 0; i < p.size(); ++i) p[i] = T(1) / T(i + 1), g[i] = T(i % 7) - T(3.5);
  std::vector<T> expected = p;
  std::vector<double> arrays((bytes + guard) / sizeof(double)), sums(adafactor::sums(extents));
  const update_terms now{.step = 3, .rate = 0.1, .scale = 0.5};
  adafactor{}.update(
      host::context{},
      tensor_operands<T>{extents, expected.data(), g.data(), {}, {row.data(), column.data()}, sums.data()}, now);

  update_range all{p.size() * sizeof(T), bytes_of(p), bytes_of(g)};
  all.extents = &extents;
  all.arrays = bytes_of(arrays);
  optimizer_update::of<host::context>(adafactor{})(host::context{}, dtype_of<T>, all, now);
  CHECK(p == expected);
  const auto is_at = [&](std::size_t at, const auto& values) {
    return std::memcmp(bytes_of(arrays) + at, values.data(), values.size() * sizeof(values[0])) == 0;
  };
  CHECK(is_at(memory.before(extents, dtype_of<T>, 0), row));
  CHECK(is_at(memory.before(extents, dtype_of<T>, 1), column));
  CHECK(is_at(memory.before(extents, dtype_of<T>, 3), sums));
  CHECK(is_at(bytes, std::vector<double>(guard / sizeof(double))));
}

TEST_CASE("the group whose update is not finite is named") {
  optimizer_update erased = optimizer_update::of<host::context>(sgd{});
  erased.use(parameter_groups(network_of<model<input<float, 3>, linear<2>, softmax_cross_entropy>>,
                              {{.parameters = {"*.bias"}}, {.parameters = {"*.weight"}, .rate_factor = 1e60}}));
  CHECK_THROWS_WITH_AS(erased.require_finite(dtype::float32, {.rate = 0.5}),
                       "an update of the parameter 1 is not a finite float: the learning rate is 5e+59 in groups[1]; "
                       "choose a smaller rate or weight decay, or a larger epsilon",
                       error);
  CHECK_NOTHROW(erased.require_finite(dtype::float64, {.rate = 0.5}));
}
