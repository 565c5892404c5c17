// optimize: yes

#include <gpipe/layer/linear/gated_feed_forward.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <string_view>

#include <gpipe/tools/testing/layer_fixture.hpp>

using namespace gpipe;
using namespace gpipe::detail;

using wide = bound<gated_feed_forward<32>, tensor<float, 3, 8>>;
static_assert(wide::parameters.size() == 3 && wide::extras.size() == 2 && wide::extras[1].size == 3 * 32);
static_assert(wide::parameters[0].extents == shape{32, 8} && wide::parameters[2].extents == shape{8, 32});
static_assert(wide::parameters[0].path_name() == std::string_view("gate_proj.weight"));

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
