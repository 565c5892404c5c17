// optimize: yes

#include <gpipe/layer/linear/bias.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include <gpipe.hpp>
#include <gpipe/tools/testing/layer_fixture.hpp>

using namespace gpipe;
using namespace gpipe::detail;

using of_rows = bound<bias, tensor<float, 4, 9>>;
static_assert(of_rows::parameters.size() == 1 && of_rows::parameters[0].extents == shape{9});
static_assert(of_rows::name == "bias" && !of_rows::keeps.input && !of_rows::keeps.output);

namespace {

template <class T, class... Last>
struct ending_in : model<input<T, 6>, linear<8>, gelu, Last..., softmax_cross_entropy> {};

template <class T>
struct rows {
  std::vector<T> inputs;
  std::vector<std::int32_t> labels;
  rows() {
    for (int i = 0; i < 12 * 6; ++i) inputs.push_back(static_cast<T>((i * 37 % 41) / 20.0 - 1));
    for (int i = 0; i < 12; ++i) labels.push_back(i * 5 % 8);
  }
  batch all() const { return batch(12).with("inputs", inputs).with("labels", labels); }
};

/// Words whose table is also the head's weight; the head has a bias of its own.
struct sharing : model<input<std::int32_t, 5>, tied<"w", embedding<7, 8>>, residual<layer_norm, linear<8>>,
                       tied<"w", linear<7, no_bias>>, named<"head", bias>, softmax_cross_entropy> {};
static_assert(network_of<sharing>.parameters() == 7 * 8 + 2 * 8 + 8 * 9 + 7);

}  // namespace

TEST_CASE_TEMPLATE("a linear layer without a bias, and a bias, train as a linear layer", T, float, double) {
  using one = ending_in<T, linear<8>>;
  using two = ending_in<T, linear<8, no_bias>, bias>;
  const plan_options plan{.stages = 2, .micro_batches = 3, .micro_batch_size = 4};
  trainer<one, sgd> whole{plan, sgd{.learning_rate = 0.5}};
  trainer<two, sgd> apart{plan, sgd{.learning_rate = 0.5}};
  CHECK(apart.array("3.bias").template values<T>() == std::vector<T>(8));
  for (const char* path : {"0.weight", "0.bias", "2.weight"})
    apart.array(path).set(whole.array(path).template values<T>());
  apart.array("3.bias").set(whole.array("2.bias").template values<T>());
  const rows<T> data;
  for (int i = 0; i < 3; ++i) whole.step(data.all()), apart.step(data.all());
  const double limit = sizeof(T) == 4 ? 1e-6 : 1e-14;
  const auto is_near = [&](const char* path, const char* other) {
    const auto a = whole.array(path).template values<T>(), b = apart.array(other).template values<T>();
    REQUIRE(a.size() == b.size());
    for (std::size_t i = 0; i < a.size(); ++i) CHECK(std::fabs(a[i] - b[i]) < limit);
  };
  is_near("0.weight", "0.weight");
  is_near("2.weight", "2.weight");
  is_near("2.bias", "3.bias");
}

TEST_CASE("a weight is shared beside a bias that is not") {
  std::vector<std::int32_t> inputs, labels;
  for (int i = 0; i < 8 * 5; ++i) inputs.push_back(i * 3 % 7), labels.push_back(i * 5 % 7);
  std::uint64_t expected = 0;
  for (const int stages : {1, 2, 4, 7}) {
    trainer<sharing, adam> training{{.stages = stages, .micro_batches = 4, .micro_batch_size = 2},
                                    adam{.learning_rate = 0.01}};
    for (int i = 0; i < 3; ++i) training.step(batch(8).with("inputs", inputs).with("labels", labels));
    if (stages == 1) expected = training.parameter_hash();
    CAPTURE(stages);
    CHECK(training.parameter_hash() == expected);
    CHECK(training.parameter("head.bias") != std::vector<float>(7));
  }
}
