#include <doctest/doctest.h>

#include <cmath>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/layer/normalization/batch_norm.hpp>

#include "support/small_training.hpp"

// Parameters, gradients, moments and state are read and written by layer and name; layers are frozen.

using namespace gpipe;
using namespace laws;
using namespace small;

namespace {

/// y = x w + b, element by element, with a fused backward.
struct fused {
  template <class In>
  struct on;
  template <class T, int N>
  struct on<tensor<T, N>> {
    using output = tensor<T, N>;
    static constexpr parameter parameters[] = {{"weight", {N}, initializer::ones()}, {"bias", {N}}};
    static constexpr keep keeps{.input = true};
    static void forward(const auto&, const auto& a) {
      loop(a.samples() * N, [&](int i) {
        a.out()[i] = a.in()[i] * a.template parameter<0>()[i % N] + a.template parameter<1>()[i % N];
      });
    }
    static void backward_input(const auto&, const auto& a) {
      loop(a.samples() * N,
           [&](int i) { a.in_gradient()[i] = a.out_gradient()[i] * a.template parameter<0>()[i % N]; });
    }
    static void backward_parameters(const auto&, const auto& a) {
      loop(a.samples() * N, [&](int i) {
        a.template gradient<0>()[i % N] += a.out_gradient()[i] * a.in()[i];
        a.template gradient<1>()[i % N] += a.out_gradient()[i];
      });
    }
    static void backward(const auto& c, const auto& a) {
      backward_input(c, a);
      backward_parameters(c, a);
    }
  };
};
struct deep : model<input<float, 4>, linear<4>, fused, linear<4>, passing_loss> {};

}  // namespace

TEST_CASE("parameters, gradients and moments are read by layer and name") {
  training t(two);
  const std::vector<float> values{0.25F, -0.5F};
  t.array(1, "weight").set(values);
  CHECK(t.parameter(1, "weight") == values);
  const float other[] = {1, 2};
  t.array(1, "weight").set(other);
  CHECK(t.parameter(1, "weight") == std::vector<float>{1, 2});
  rejects("parameter \"weight\" is float", [&] { t.array(1, "weight").set(std::vector<double>(2)); });
  t.array(1, "weight").set(std::span<const float>(values));
  CHECK(t.parameter(1, "weight") == values);
  CHECK(t.array(1, "weight").moment(0) == std::vector<float>{0, 0});
  t.step(all);
  CHECK(t.parameter(1, "weight") != values);
  CHECK(t.array(1, "weight").gradient()[0] != 0);
  CHECK(t.array(1, "weight").moment(0)[0] == doctest::Approx(0.1 * t.array(1, "weight").gradient()[0] / 5));
  CHECK(t.array(1, "weight").moment(1)[0] > 0);
}

TEST_CASE("a layer's state is read and written by layer and name") {
  struct averaging : model<input<float, 4>, halve, cross, join, batch_norm<>, passing_loss> {};
  trainer<averaging, adam> t(two);
  const std::vector<float> none(4, 0.0F), ones(4, 1.0F), far(4, 1e4F);
  CHECK(t.state(3, "mean") == none);
  CHECK(t.state(3, "variance") == ones);
  const auto hash = t.parameter_hash();
  const double loss = t.evaluate(all).loss;
  t.state_array(3, "variance").set(far);
  CHECK(t.state(3, "variance") == far);
  CHECK(t.state(3, "mean") == none);
  CHECK(t.evaluate(all).loss != loss);
  CHECK(t.parameter_hash() == hash);
  t.step(all);
  CHECK(t.state(3, "mean") != none);
  CHECK(t.state(3, "variance")[0] < 1e4F);
  rejects("the layer has no state \"weight\"; its state: mean, variance", [&] { t.state(3, "weight"); });
  rejects("the layer has no parameter \"mean\"", [&] { t.parameter(3, "mean"); });
  rejects("the layer has no state", [&] { t.state(0, "mean"); });
  rejects("the model has no layer 5", [&] { t.state(5, "mean"); });
  rejects("state \"mean\" is float; read it as that", [&] { t.state<double>(3, "mean"); });
  rejects("state \"mean\" has 4 elements, not 3", [&] { t.state_array(3, "mean").set(std::vector<float>(3)); });
}

TEST_CASE("a step whose next state is not finite is refused, names the layer and changes nothing") {
  struct averaging : model<input<float, 4>, batch_norm<>, linear<4>, softmax_cross_entropy> {};
  std::vector<float> large = x;
  for (float& value : large) value *= 1e25F;  // normalized they are small, but no float holds their variance
  const batch far = batch(5).with("inputs", large).with("labels", labels);
  for (const bool in_two_calls : {false, true})
    for (const int replicas : {1, 2})
      for (const int stages : {1, 3}) {
        CAPTURE(in_two_calls);
        CAPTURE(replicas);
        CAPTURE(stages);
        const plan_options o{.stages = stages, .micro_batches = 2, .micro_batch_size = 3, .replicas = replicas};
        trainer<averaging, adam> t(o), twin(o);
        for (int round = 0; round < 2; ++round) {
          CHECK(t.step(all).loss == twin.step(all).loss);
          if (in_two_calls) t.accumulate(all);
          std::string found;
          try {
            t.step(far);
          } catch (const error& failure) {
            found = failure.wrong();
            CHECK(failure.where().layer_index == 0);
          }
          CHECK(found == "its state \"variance\" would not be finite after the step");
          for (const char* name : {"mean", "variance"}) CHECK(t.state(0, name) == twin.state(0, name));
          CHECK(t.parameter_hash() == twin.parameter_hash());
          if (in_two_calls) t.discard_accumulated();
        }
      }
}

TEST_CASE("a state that is set to NaN is kept, and the next step names it and changes nothing") {
  struct averaging : model<input<float, 4>, batch_norm<>, linear<4>, softmax_cross_entropy> {};
  trainer<averaging, adam> t(two);
  const std::vector<float> ones(4, 1.0F), one_nan{1, std::nanf(""), 1, 1};
  const auto hash = t.parameter_hash();
  t.state_array(0, "variance").set(one_nan);
  CHECK(std::isnan(t.state(0, "variance")[1]));
  rejects("its state \"variance\" would not be finite after the step", [&] { t.step(all); });
  CHECK(t.parameter_hash() == hash);
  rejects("not finite", [&] { t.evaluate(all); });
  t.state_array(0, "variance").set(ones);
  t.step(all);
  CHECK(t.parameter_hash() != hash);
}

TEST_CASE("an unknown parameter, or one of another type or size, is rejected") {
  training t(two);
  rejects("the model has no layer 4; layers are 0 to 3", [&] { t.parameter(4, "weight"); });
  rejects("the model has no layer -1", [&] { t.parameter(-1, "weight"); });
  rejects("layer 1 laws::cross: the layer has no parameter \"bias\"", [&] { t.array(1, "bias").gradient(); });
  rejects("the layer has no parameter \"weight\"", [&] { t.parameter(0, "weight"); });
  rejects("parameter \"weight\" is float; read it as that", [&] { t.parameter<double>(1, "weight"); });
  rejects("parameter \"weight\" has 2 elements, not 3; give all of them",
          [&] { t.array(1, "weight").set(std::vector<float>(3)); });
  rejects("the optimizer has no moment 2; it keeps 2 arrays", [&] { t.array(1, "weight").moment(2); });
  rejects("the optimizer has no moment -1", [&] { t.array(1, "weight").moment(-1); });
}

TEST_CASE("frozen layers do not change and do not count in the norm") {
  for (const int stages : {1, 2, 4}) {
    trainer<deep, adamw> t(plan_options{.stages = stages, .micro_batches = 2, .micro_batch_size = 3},
                           adamw{.learning_rate = 0.1});
    t.step(all);
    const auto of = [&](int layer) {
      std::vector<std::vector<float>> values;
      for (const char* name : {"weight", "bias"})
        for (const auto& v : {t.parameter(layer, name), t.array(layer, name).moment(0), t.array(layer, name).moment(1)})
          values.push_back(v);
      return values;
    };
    const auto norm = [&](std::initializer_list<int> layers) {
      double sum = 0;
      for (const int layer : layers)
        for (const char* name : {"weight", "bias"})
          for (const float g : t.array(layer, name).gradient()) sum += static_cast<double>(g) * static_cast<double>(g);
      return std::sqrt(sum) / 5;
    };
    t.freeze(1);
    double found = 0;
    auto first = of(0), second = of(1), third = of(2);
    found = t.step(all).norm;
    CHECK(found == doctest::Approx(norm({0, 2})));
    CHECK(norm({1}) == 0);
    CHECK(of(0) != first);
    CHECK(of(1) == second);
    CHECK(of(2) != third);
    t.unfreeze(1);
    t.freeze(0, 2);
    first = of(0), third = of(2);
    found = t.step(all).norm;
    CHECK(found == doctest::Approx(norm({2})));
    CHECK(of(0) == first);
    CHECK(of(1) == second);
    CHECK(of(2) != third);
    t.unfreeze(0, 4);
    found = t.step(all).norm;
    CHECK(found == doctest::Approx(norm({0, 1, 2})));
    CHECK(of(0) != first);
    CHECK(of(1) != second);
    t.accumulate(some(0, 2));  // layers that are frozen between the calls do not count either
    t.freeze(0, 2);
    found = t.step(some(2, 3)).norm;
    CHECK(norm({1}) > 0);
    CHECK(found == doctest::Approx(norm({2})));
    t.freeze(0, 4);
    const auto before = t.parameter_hash();
    CHECK(t.step(all).norm == 0);
    CHECK(t.parameter_hash() == before);
    rejects("the model has no layer 4", [&] { t.freeze(4); });
    rejects("the model has no layer -1", [&] { t.unfreeze(-1, 2); });
    rejects("the layers [3, 1) end before they begin", [&] { t.freeze(3, 1); });
  }
}

namespace {

struct head : named<"head", linear<4>> {};
struct pathed : model<input<float, 4>, batch_norm<>, repeat<3, tied<"fc", linear<4>>, batch_norm<>>,
                      named<"h", repeat<2, residual<named<"fc", linear<4>>>>>, head, softmax_cross_entropy> {};
constexpr plan_options stages_of(int stages) { return {.stages = stages, .micro_batches = 2, .micro_batch_size = 3}; }

}  // namespace

TEST_CASE("parameters, gradients, moments and state are read and written by path") {
  trainer<pathed, adam> t(stages_of(3));
  const std::vector<float> values(16, 0.5F), means(4, 2.0F);
  t.array("h.1.fc.weight").set(values);
  t.state_array("1.2.1.running_mean").set(std::span(means));
  CHECK(t.parameter("h.1.fc.weight") == values);
  CHECK(t.parameter(9, "weight") == values);
  CHECK(t.state("1.2.1.running_mean") == means);
  CHECK(t.state(6, "mean") == means);
  t.step(all);
  CHECK(t.array("h.1.fc.weight").gradient() == t.array(9, "weight").gradient());
  CHECK(t.array("h.1.fc.weight").moment(1) == t.array(9, "weight").moment(1));
  CHECK(t.parameter("head.bias") == t.parameter(11, "bias"));
  CHECK(t.parameter("1.2.0.weight") == t.parameter("1.0.0.weight"));  // tied
  rejects("no parameter or state at \"head.wieght\"; did you mean \"head.weight\"?",
          [&] { t.parameter("head.wieght"); });
  rejects("\"0.running_mean\" is state, which is not trained; read it by state()",
          [&] { t.parameter("0.running_mean"); });
  rejects("\"0.running_mean\" is state, which is not trained; read it by values(), write it by set()",
          [&] { t.state_array("0.running_mean").gradient(); });
  rejects("\"0.running_mean\" is state", [&] { t.state_array("0.running_mean").moment(0); });
  rejects("\"0.running_mean\" is state", [&] { t.state_array("0.running_mean").set_average(means); });
  rejects("\"head.bias\" is a parameter; read it by parameter()", [&] { t.state("head.bias"); });
  rejects("\"weight\" has 16 elements, not 4", [&] { t.array("head.weight").set(means); });
  rejects("\"weight\" is float", [&] { t.parameter<double>("head.weight"); });
}

TEST_CASE("all parameters are listed, with the same paths for every number of stages") {
  std::vector<std::string> paths;
  for (const int stages : {1, 3, 6}) {
    trainer<pathed, adam> t(stages_of(stages));
    t.freeze(3);  // tied to 1 and 5
    t.step(all);
    std::vector<std::string> found;
    std::size_t trained = 0;
    for (auto& p : t.parameters()) {
      found.push_back(p.path);
      const bool state = p.kind == array_kind::state;
      CHECK(p.size() == p.values().size());
      CHECK(p.type == dtype::float32);
      CHECK(p.group == 0);
      CHECK(p.values() == (state ? t.state(p.path) : t.parameter(p.path)));
      CHECK(p.frozen == (!state && p.owner == 1));
      CHECK(p.trainable() == (!state && p.owner != 1));
      CHECK(p.stage == t.plan().cut().stage_of(p.owner));
      if (!state) CHECK(p.gradient() == t.array(p.path).gradient());
      if (!state) CHECK(p.moment(1) == t.array(p.path).moment(1));
      if (p.owner == p.layer_index && p.trainable()) trained += p.size();
      p.set(std::vector<float>(p.size(), 0.25F));
      CHECK(p.values() == std::vector<float>(p.size(), 0.25F));
    }
    CHECK(trained == network_of<pathed>.parameters() - 20);
    if (paths.empty()) paths = found;
    CHECK(found == paths);
    t.unfreeze(5);
    CHECK(t.parameters()[4].trainable());
  }
  CHECK(paths.size() == 28);
  CHECK(paths[0] == "0.weight");
  CHECK(paths[3] == "0.running_var");
  CHECK(paths[4] == "1.0.0.weight");
  CHECK(paths.back() == "head.bias");
}

TEST_CASE("a frozen weight stays at each of its uses, in any stages") {
  struct shared
      : model<input<float, 4>, tied<"w", linear<4>>, fused, tied<"w", linear<4>>, linear<3>, softmax_cross_entropy> {};
  for (const int frozen : {0, 2}) {
    CAPTURE(frozen);
    trainer<shared, adam> t{{.stages = 3, .micro_batches = 2, .micro_batch_size = 3}};
    const std::vector<std::int32_t> kinds{0, 1, 2, 1, 0};
    const batch some = batch(5).with("inputs", x).with("labels", kinds);
    t.freeze(frozen);
    const std::vector<float> before = t.parameter(0, "weight"), other = t.parameter(3, "weight");
    t.step(some);
    CHECK(t.parameter(0, "weight") == before);
    CHECK(t.parameter(2, "weight") == before);
    CHECK(t.parameter(3, "weight") != other);
    t.unfreeze(frozen);
    t.step(some);
    CHECK(t.parameter(2, "weight") != before);
    CHECK(t.parameter(2, "weight") == t.parameter(0, "weight"));
  }
}

TEST_CASE("a parameter that is set is set in its moving average") {
  trainer<deep, adam> t{two, adam{}, {.average_weights = 0.9}};
  t.step(all);
  t.array(0, "weight").set(std::vector<float>(16, 0.5F));
  t.array(0, "bias").set(std::vector<float>(4, 1.0F));
  for (const int layer : {1, 2})
    for (const char* name : {"weight", "bias"}) t.array(layer, name).set(t.parameter(layer, name));
  CHECK(t.evaluate(all, weights::averaged).loss == t.evaluate(all).loss);
}

TEST_CASE("an evaluation whose loss is infinite fails") {
  struct far : model<input<float, 4>, linear<4>, linear<3>, softmax_cross_entropy> {};
  trainer<far, sgd> t{two};
  t.array(0, "weight").set(std::vector<float>(16, 3e38F));
  const std::vector<std::int32_t> kinds{0, 1, 2, 1, 0};
  rejects("finite", [&] { t.evaluate(batch(5).with("inputs", x).with("labels", kinds)); });
}
