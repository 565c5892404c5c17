// optimize: yes

#include <gpipe/layer/linear/feed_forward.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <string_view>
#include <type_traits>
#include <vector>

#include <gpipe/core/descriptions/optimizer.hpp>
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/linear/gated_feed_forward.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/loss/mean_squared_error.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/tools/testing/layer_fixture.hpp>
#include <gpipe/train/trainer.hpp>

#include "support/larger_error.hpp"

using namespace gpipe;
using namespace gpipe::detail;

using wide = bound<feed_forward<32>, tensor<float, 3, 8>>;
static_assert(std::is_same_v<wide::output, tensor<float, 3, 8>>);

// The same parameters and operations as linear, gelu and linear.
using inner_linear = bound<linear<32>, tensor<float, 3, 8>>;
using between = bound<gelu, tensor<float, 3, 32>>;
using outer_linear = bound<linear<8>, tensor<float, 3, 32>>;
static_assert(wide::parameters[0].extents == inner_linear::parameters[0].extents);
static_assert(wide::parameters[1].extents == inner_linear::parameters[1].extents);
static_assert(wide::parameters[2].extents == outer_linear::parameters[0].extents);
static_assert(wide::parameters[3].extents == outer_linear::parameters[1].extents);
static_assert(wide::cost.backward_parameters ==
              inner_linear::cost.backward_parameters + outer_linear::cost.backward_parameters);
constexpr std::int64_t separate = inner_linear::cost.forward + between::cost.forward + outer_linear::cost.forward;
static_assert(separate - wide::cost.forward == 3 * 32 + 3 * 8);  // the two biases: products add them at no cost

static_assert(wide::extras.size() == 1 && wide::extras[0].size == 3 * 32);
static_assert(wide::forward_workspace[0].size == 3 * 32 && wide::backward_extras[0].size == 3 * 32);
static_assert(wide::derived[0].size == inner_linear::derived[0].size &&
              wide::derived[3].size == outer_linear::derived[1].size);

namespace {

template <class T>
struct one_layer : model<input<T, 3, 8>, feed_forward<32>, feed_forward<16>, mean_squared_error> {};
template <class T>
struct three_layers
    : model<input<T, 3, 8>, linear<32>, gelu, linear<8>, linear<16>, gelu, linear<8>, mean_squared_error> {};
struct with_relu : model<input<float, 3, 8>, feed_forward<32, relu>, mean_squared_error> {};
struct three_with_relu : model<input<float, 3, 8>, linear<32>, relu, linear<8>, mean_squared_error> {};

template <class T>
std::vector<T> numbers(int stream, std::size_t count) {
  std::vector<T> found(count);
  for (std::size_t i = 0; i < count; ++i)
    found[i] = static_cast<T>(static_cast<double>((static_cast<int>(i) * 37 + stream * 11) % 41) / 40 - 0.5);
  return found;
}

/// All parameters after three steps, from numbers that do not depend on the layers' positions.
template <class Model, class T>
std::vector<T> trained(const plan_options& options) {
  trainer<Model, sgd> training(options, sgd{.learning_rate = 0.5});
  int stream = 0;
  for (auto& p : training.parameters()) p.set(numbers<T>(stream++, p.size()));
  const auto x = numbers<T>(50, 4 * 24), y = numbers<T>(51, 4 * 24);
  const batch all = batch(4).with("inputs", x).with("targets", y);
  for (int i = 0; i < 3; ++i) training.step(all);
  std::vector<T> found;
  for (auto& p : training.parameters())
    for (const T v : p.template values<T>()) found.push_back(v);
  return found;
}

template <class T>
void near(const std::vector<T>& got, const std::vector<T>& want, double tolerance) {
  REQUIRE(got.size() == want.size());
  double worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i)
    worst = larger_error(worst, std::fabs(static_cast<double>(got[i]) - static_cast<double>(want[i])));
  CHECK(worst < tolerance);
}

const plan_options four{.micro_batches = 4, .micro_batch_size = 1};

}  // namespace

TEST_CASE("the name of feed_forward contains its hidden width") { CHECK(wide::name == "feed_forward<32>"); }

// No gradient flows back to the input of the first layer, so its input part does not run.
TEST_CASE("feed_forward trains as linear, gelu and linear do") {
  near(trained<one_layer<double>, double>(four), trained<three_layers<double>, double>(four), 1e-13);
  near(trained<one_layer<float>, float>(four), trained<three_layers<float>, float>(four), 1e-5);
  near(trained<with_relu, float>(four), trained<three_with_relu, float>(four), 1e-5);
}

TEST_CASE("no cut, schedule or recompute changes a bit of a feed_forward") {
  const std::vector<float> alone = trained<one_layer<float>, float>(four);
  for (const int stages : {1, 2, 3})
    for (const schedule_kind schedule : {schedule_kind::one_f_one_b, schedule_kind::zb_h1}) {
      plan_options options = four;
      options.stages = stages;
      options.schedule = schedule;
      CHECK(trained<one_layer<float>, float>(options) == alone);
      options.recompute = recompute_mode::always;
      CHECK(trained<one_layer<float>, float>(options) == alone);
    }
}

// The parameter parts of several micro-batches at once; in the first layer they begin with what the input part skipped.
TEST_CASE("several micro-batches in one product give the same bits") {
  for (const int group : {2, 3}) {
    plan_options options = four;
    options.schedule = schedule_kind::fill_drain;
    options.recompute = recompute_mode::never;
    options.group_gradients = 1;
    const std::vector<float> alone = trained<one_layer<float>, float>(options);
    options.group_gradients = group;
    CHECK(trained<one_layer<float>, float>(options) == alone);
  }
}

TEST_CASE("a recompute computes again what backward has overwritten") {
  host::layer_fixture<feed_forward<5>, tensor<float, 2, 3>> t(2, 2);
  t.randomize(1);
  t.refresh();
  t.forward();
  t.backward_input();
  t.backward_parameters();
  const std::vector<std::byte> once = t.gradients[0].bits();
  t.gradients[0].clear();
  t.forward();
  t.backward_input();
  t.backward_parameters();
  CHECK(t.gradients[0].bits() == once);
}

using gated_wide = bound<gated_feed_forward<32>, tensor<float, 3, 8>>;
static_assert(gated_wide::parameters.size() == 3 && gated_wide::extras.size() == 2 &&
              gated_wide::extras[1].size == 3 * 32);
static_assert(gated_wide::parameters[0].extents == shape{32, 8} && gated_wide::parameters[2].extents == shape{8, 32});
static_assert(gated_wide::parameters[0].path_name() == std::string_view("gate_proj.weight"));

// Hugging Face's LlamaMLP: down(silu(gate(x)) * up(x)).
TEST_CASE_TEMPLATE("forward follows the formula", T, float, double) {
  constexpr std::size_t width = 5, hidden = 34, rows = 2;
  host::layer_fixture<gated_feed_forward<hidden>, tensor<T, rows, width>> t(3, 4);
  t.randomize(4);
  t.refresh();
  t.forward();
  const auto weight = [&](std::size_t which, std::size_t i) { return t.parameters[0].get(t.first_of(which) + i); };
  for (std::size_t row = 0; row < 3 * rows; ++row) {
    double z[hidden];
    for (std::size_t h = 0; h < hidden; ++h) {
      double gate = 0, up = 0;
      for (std::size_t i = 0; i < width; ++i) {
        gate += t.in[0].get(row * width + i) * weight(0, h * width + i);
        up += t.in[0].get(row * width + i) * weight(1, h * width + i);
      }
      z[h] = gate / (1 + std::exp(-gate)) * up;
    }
    for (std::size_t i = 0; i < width; ++i) {
      double y = 0;
      for (std::size_t h = 0; h < hidden; ++h) y += z[h] * weight(2, i * hidden + h);
      CHECK(std::fabs(t.out[0].get(row * width + i) - y) < (sizeof(T) == 4 ? 1e-5 : 1e-13));
    }
  }
  CHECK(t.overrun().empty());
}
