// optimize: yes

#include <gpipe/layer/normalization/layer_norm.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <vector>

#include <gpipe/layer/normalization/rms_norm.hpp>
#include <gpipe/tools/testing/layer_fixture.hpp>

using namespace gpipe;
using namespace gpipe::detail;

static_assert(bound<layer_norm, tensor<float, 4, 9>>::parameters[0].extents == shape{9});
static_assert(bound<layer_norm, tensor<float, 4, 9>>::extras[0].size == 4);

TEST_CASE_TEMPLATE("layer_norm normalizes by mean and variance", T, float, double) {
  constexpr std::size_t N = 37, rows = 2;
  host::layer_fixture<layer_norm, tensor<T, rows, N>> t(3, 3);
  t.randomize(4);
  SUBCASE("around 0") {}
  SUBCASE("far from 0, where a variance from a difference of squares loses all digits") {
    for (std::size_t i = 0; i < t.in[0].count(); ++i) t.in[0].set(i, 1000 + t.in[0].get(i));
  }
  t.forward();
  const double tolerance = sizeof(T) == 4 ? 3e-4 : 1e-11;
  for (std::size_t row = 0; row < 3 * rows; ++row) {
    double mean = 0, variance = 0;
    for (std::size_t i = 0; i < N; ++i) mean += t.in[0].get(row * N + i) / N;
    for (std::size_t i = 0; i < N; ++i) variance += std::pow(t.in[0].get(row * N + i) - mean, 2) / N;
    for (std::size_t i = 0; i < N; ++i) {
      const double h = (t.in[0].get(row * N + i) - mean) / std::sqrt(variance + 1e-5);
      const double want = t.parameters[0].get(i) * h + t.parameters[0].get(t.first_of(1) + i);
      CHECK(std::fabs(t.out[0].get(row * N + i) - want) < tolerance);
    }
  }
  CHECK(t.overrun().empty());
}

TEST_CASE("equal elements give the bias, not NaN") {
  host::layer_fixture<layer_norm, tensor<float, 8>> t(1, 1);
  t.randomize(1);
  for (std::size_t i = 0; i < 8; ++i) t.in[0].set(i, 2);
  t.forward();
  for (std::size_t i = 0; i < 8; ++i) CHECK(t.out[0].get(i) == t.parameters[0].get(t.first_of(1) + i));
}

using norm = bound<rms_norm, tensor<float, 4, 9>>;
static_assert(norm::parameters.size() == 1 && norm::parameters[0].extents == shape{9});
static_assert(norm::extras[0].size == 4 && norm::name == "rms_norm");

TEST_CASE_TEMPLATE("rms_norm divides by the root mean square", T, float, double) {
  constexpr std::size_t N = 37, rows = 2;
  host::layer_fixture<rms_norm_with<root_mean_square{.epsilon = 0.5}>, tensor<T, rows, N>> t(3, 3);
  t.randomize(4);
  t.forward();
  for (std::size_t row = 0; row < 3 * rows; ++row) {
    double mean = 0;
    for (std::size_t i = 0; i < N; ++i) mean += std::pow(t.in[0].get(row * N + i), 2) / N;
    for (std::size_t i = 0; i < N; ++i) {
      const double want = t.parameters[0].get(i) * t.in[0].get(row * N + i) / std::sqrt(mean + 0.5);
      CHECK(std::fabs(t.out[0].get(row * N + i) - want) < (sizeof(T) == 4 ? 1e-6 : 1e-14));
    }
  }
  CHECK(t.overrun().empty());
}

TEST_CASE("zeros give zeros, not NaN") {
  host::layer_fixture<rms_norm, tensor<float, 8>> t(1, 1);
  t.randomize(1);
  for (std::size_t i = 0; i < 8; ++i) t.in[0].set(i, 0);
  t.forward();
  t.backward_input();
  for (std::size_t i = 0; i < 8; ++i) {
    CHECK(t.out[0].get(i) == 0);
    CHECK(std::isfinite(t.in_gradient[0].get(i)));
  }
}

namespace {

template <class Layer, class T>
struct norm_of {
  using layer = Layer;
  using input = tensor<T, 3, 37>;
};

template <class Norm>
using fixture = host::layer_fixture<typename Norm::layer, typename Norm::input>;

template <class Norm>
void run_backward(fixture<Norm>& t) {
  t.randomize(7);
  t.forward();
  t.backward_input();
}

}  // namespace

TEST_CASE_TEMPLATE("the gradient is added to those of other readers, with the bits of an addition afterwards", Norm,
                   norm_of<layer_norm, bf16>, norm_of<rms_norm, bf16>) {
  fixture<Norm> apart(4, 5), at_once(4, 5);
  run_backward<Norm>(apart);
  const std::size_t count = 4 * 3 * 37;
  std::vector<bf16> sum(count), before(count);
  for (std::size_t i = 0; i < count; ++i) sum[i] = before[i] = bf16(static_cast<float>(i % 13) * 0.37F - 2);
  bool added = false;
  at_once.call().gradient_sum = reinterpret_cast<std::byte*>(sum.data());
  at_once.call().added = &added;
  run_backward<Norm>(at_once);
  CHECK(added);
  CHECK(at_once.in_gradient[0].bits() == apart.in_gradient[0].bits());
  CHECK(at_once.overrun().empty());
  const auto* made = reinterpret_cast<const bf16*>(apart.in_gradient[0].data());
  std::size_t equal = 0, changed = 0;
  for (std::size_t i = 0; i < count; ++i) {
    equal += sum[i].bits == bf16(before[i] + made[i]).bits;
    changed += sum[i].bits != before[i].bits;
  }
  CHECK(equal == count);
  CHECK(changed > count / 2);
}

TEST_CASE_TEMPLATE("numbers that are not rounded between are left to the executor", Norm, norm_of<layer_norm, float>,
                   norm_of<rms_norm, float>, norm_of<layer_norm, double>) {
  fixture<Norm> t(4, 5);
  std::byte sum[sizeof(double) * 4 * 3 * 37]{};
  bool added = false;
  t.call().gradient_sum = sum;
  t.call().added = &added;
  run_backward<Norm>(t);
  CHECK(!added);
  for (const std::byte b : sum) REQUIRE(b == std::byte{0});
}
