// optimize: yes

#include <gpipe/layer/normalization/rms_norm.hpp>

#include <doctest/doctest.h>

#include <cmath>

#include <gpipe/tools/testing/layer_fixture.hpp>

using namespace gpipe;
using namespace gpipe::detail;

using norm = bound<rms_norm, tensor<float, 4, 9>>;
static_assert(norm::parameters.size() == 1 && norm::parameters[0].extents == shape{9});
static_assert(norm::extras[0].size == 4 && norm::name == "rms_norm");

TEST_CASE_TEMPLATE("forward follows the formula", T, float, double) {
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
