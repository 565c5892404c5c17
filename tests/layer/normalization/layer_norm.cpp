// optimize: yes

#include <gpipe/layer/normalization/layer_norm.hpp>

#include <doctest/doctest.h>

#include <cmath>

#include <gpipe/tools/testing/layer_fixture.hpp>

using namespace gpipe;
using namespace gpipe::detail;

static_assert(bound<layer_norm, tensor<float, 4, 9>>::parameters[0].extents == shape{9});
static_assert(bound<layer_norm, tensor<float, 4, 9>>::extras[0].size == 4);

TEST_CASE_TEMPLATE("forward follows the formula", T, float, double) {
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
