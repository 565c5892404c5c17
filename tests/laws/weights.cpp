#include <doctest/doctest.h>

#include <cmath>
#include <string_view>

#include "support/larger_error.hpp"
#include "support/nets.hpp"

using namespace laws;

namespace {

template <class T>
struct net : model<input<T, 12>, linear<16>, gelu, layer_norm, linear<7>, softmax_cross_entropy> {};

template <class T>
inline constexpr double tolerance = std::is_same_v<T, float> ? 1e-5 : 1e-12;

/// The result of one step over a batch, with its mean gradients and the parameters after it.
template <class T>
struct found {
  step_result step;
  std::vector<double> gradients;
  std::vector<T> parameters;
};

template <class T, class Net = net<T>>
found<T> train(const batch& b, int M, int S = 1, int R = 1) {
  const int B = (b.samples() + R * M - 1) / (R * M);
  trainer<Net, sgd> training(plan_options{.stages = S, .micro_batches = M, .micro_batch_size = B, .replicas = R},
                             sgd{.learning_rate = 0.5});
  found<T> f;
  f.step = training.step(b);
  const auto& net = training.executor().net();
  for (int l = 0; l < net.layer_count; ++l)
    for (int p = 0; p < net.type_of(l).parameter_count; ++p) {
      const auto& name = net.type_of(l).parameters[p].name;
      for (const T x : training.array(l, name).template gradient<T>())
        f.gradients.push_back(static_cast<double>(x) / f.step.weight);
      for (const T x : training.array(l, name).template values<T>()) f.parameters.push_back(x);
    }
  return f;
}

/// The largest difference, relative to the largest number.
double difference(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double largest = 0, difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = (std::max)(largest, std::abs(a[i]));
    difference = larger_error(difference, std::abs(a[i] - b[i]));
  }
  return difference / largest;
}

}  // namespace

TEST_CASE_TEMPLATE("a micro-batch counts by its samples: any M gives the same mean", T, float, double) {
  const samples<T> data(13, 12, 1);
  batch without_weights(13);
  without_weights.with("inputs", data.inputs).with("labels", data.labels);
  for (const batch& b : {data.all(), without_weights}) {
    const auto whole = train<T>(b, 1);
    CHECK(whole.step.samples == 13);
    for (const int M : {2, 5, 12, 13, 20}) {  // 5: 3 + 3 + 3 + 3 + 1; 12: six pairs and one
      CAPTURE(M);
      for (const int S : {1, 3}) {
        const auto parts = train<T>(b, M, S);
        CHECK(std::abs(parts.step.loss - whole.step.loss) < tolerance<T>);
        CHECK(std::abs(parts.step.norm - whole.step.norm) < tolerance<T>);
        CHECK(parts.step.weight == doctest::Approx(whole.step.weight));
        CHECK(parts.step.correct == doctest::Approx(whole.step.correct));
        CHECK(parts.step.samples == 13);
        CHECK(difference(parts.gradients, whole.gradients) < tolerance<T>);
      }
    }
  }
}

TEST_CASE_TEMPLATE("R replicas of M micro-batches equal one of R M, except for the order of sums", T, float, double) {
  const samples<T> data(13, 12, 1), pairs(13, 12, 2);
  const auto holds = [&](const batch& b, auto net) {
    for (const int R : {2, 3})
      for (const int M : {1, 2, 4}) {
        CAPTURE(R);
        CAPTURE(M);
        const auto one = train<T, decltype(net)>(b, R * M), split = train<T, decltype(net)>(b, M, 3, R);
        CHECK(split.step.loss == one.step.loss);  // to the bit: forward is the same
        CHECK(split.step.weight == one.step.weight);
        CHECK(split.step.correct == one.step.correct);
        CHECK(split.step.samples == 13);
        CHECK(std::abs(split.step.norm - one.step.norm) < tolerance<T>);
        CHECK(difference(split.gradients, one.gradients) < tolerance<T>);
      }
  };
  holds(data.all(), residual_net<T>{});
  holds(data.all(), tied_net<T>{});
  holds(pairs.all(), skip_net<T>{});
}

TEST_CASE("dropout depends on a sample's position in the mini-batch, not on the micro-batch") {
  const samples<float> data(13, 12, 1);
  const auto whole = train<float, residual_net<float>>(data.all(), 1);
  const auto parts = train<float, residual_net<float>>(data.all(), 5);
  CHECK(difference(parts.gradients, whole.gradients) < 10 * tolerance<float>);
}

TEST_CASE_TEMPLATE("a sample of weight 3 counts as three samples", T, float, double) {
  const samples<T> data(5, 12, 1);
  const std::vector<T> weights{1, 3, 2, 1, 3};
  std::vector<T> inputs;
  std::vector<std::int32_t> labels;
  for (std::size_t i = 0; i < 5; ++i)
    for (int k = 0; k < static_cast<int>(weights[i]); ++k) {
      inputs.insert(inputs.end(), data.inputs.begin() + static_cast<long>(12 * i),
                    data.inputs.begin() + static_cast<long>(12 * i + 12));
      labels.push_back(data.labels[i]);
    }
  batch weighted(5), repeated(10);
  weighted.with("inputs", data.inputs).with("labels", data.labels).with("weights", weights);
  repeated.with("inputs", inputs).with("labels", labels);
  const auto one = train<T>(weighted, 2), other = train<T>(repeated, 4);
  CHECK(one.step.weight == 10);
  CHECK(other.step.weight == 10);
  CHECK(std::abs(one.step.loss - other.step.loss) < tolerance<T>);
  CHECK(difference(one.gradients, other.gradients) < tolerance<T>);
}

TEST_CASE_TEMPLATE("a sample of weight 0 does not matter, to the bit", T, float, double) {
  samples<T> data(13, 12, 1);
  for (const std::size_t i : {0U, 7U, 12U}) data.weights[i] = 0;
  const auto before = train<T>(data.all(), 5);
  for (const std::size_t i : {0U, 7U, 12U}) {
    for (std::size_t j = 0; j < 12; ++j) data.inputs[12 * i + j] = static_cast<T>(3 * noise(9, 12 * i + j));
    data.labels[i] = (data.labels[i] + 1) % 7;
  }
  const auto after = train<T>(data.all(), 5);
  CHECK(after.step.loss == before.step.loss);
  CHECK(after.step.norm == before.step.norm);
  CHECK(after.step.correct == before.step.correct);
  CHECK(after.gradients == before.gradients);
  CHECK(after.parameters == before.parameters);
}

TEST_CASE("only the ratios of weights matter: doubling all gives the same step, to the bit") {
  samples<float> data(13, 12, 1);
  const auto before = train<float>(data.all(), 5);
  for (float& w : data.weights) w *= 2;
  const auto after = train<float>(data.all(), 5);
  CHECK(after.step.weight == 2 * before.step.weight);
  CHECK(after.step.loss == before.step.loss);
  CHECK(after.step.norm == before.step.norm);
  CHECK(after.parameters == before.parameters);
}

TEST_CASE("an evaluation in parts is the weighted mean of the whole") {
  const samples<float> data(13, 12, 1);
  const auto set =
      dataset{}.with("inputs", 12, data.inputs).with("labels", 1, data.labels).with("weights", 1, data.weights);
  trainer<net<float>, sgd> whole(plan_options{.micro_batches = 1, .micro_batch_size = 13});
  trainer<net<float>, sgd> parts(plan_options{.stages = 2, .micro_batches = 2, .micro_batch_size = 3});
  const step_result expected = whole.evaluate(data.all()), found = parts.evaluate(set);  // 6 + 6 + 1
  CHECK(found.loss == doctest::Approx(expected.loss).epsilon(1e-6));
  CHECK(found.weight == doctest::Approx(expected.weight));
  CHECK(found.correct == doctest::Approx(expected.correct));
  CHECK(found.samples == 13);
}
