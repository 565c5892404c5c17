// optimize: kernels

#include <gpipe/device/host/team.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

using gpipe::host::team;

namespace {

// Numbers whose sum depends on its order; from memory, so that no product is fused into the sum.
const std::vector<float> values = [] {
  std::vector<float> list;
  for (int i = 0; i < 300; ++i) list.push_back(std::sin(static_cast<float>(i)) * (i % 7 == 0 ? 1e6F : 1e-2F));
  return list;
}();
float value(std::ptrdiff_t i) { return values[static_cast<std::size_t>(i)]; }

// The order that team.hpp promises, written out.
float in_sixteen_lanes(std::ptrdiff_t width) {
  float lane[16] = {};
  for (std::ptrdiff_t i = 0; i < width; ++i) lane[i % 16] += value(i);
  for (int apart = 8; apart > 0; apart /= 2)
    for (int l = 0; l < apart; ++l) lane[l] += lane[l + apart];
  return lane[0];
}

}  // namespace

TEST_CASE("a sum has the promised order, to the bit") {
  for (std::ptrdiff_t width = 0; width < 300; ++width) {
    CAPTURE(width);
    CHECK(team{}.sum(width, value) == in_sixteen_lanes(width));
  }
}

TEST_CASE("a sum has the type that its function returns") {
  const double ones = team{}.sum(100, [](std::ptrdiff_t) { return 1.0; });
  CHECK(ones == 100);
}

TEST_CASE("maximum finds the greatest at any position") {
  for (std::ptrdiff_t width = 1; width < 200; ++width)
    for (std::ptrdiff_t at = 0; at < width; at += 3)
      REQUIRE(team{}.maximum(width, -9.0F, [at](std::ptrdiff_t i) { return i == at ? -1.0F : -2.0F; }) == -1.0F);
}

TEST_CASE("maximum ignores NaN and starts from the initial value") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(team{}.maximum(40, -5.0F, [nan](std::ptrdiff_t i) { return i == 20 ? 3.0F : nan; }) == 3);
  CHECK(team{}.maximum(40, -5.0F, [nan](std::ptrdiff_t) { return nan; }) == -5);
  CHECK(team{}.maximum(0, -5.0F, [](std::ptrdiff_t) { return 1.0F; }) == -5);
}

TEST_CASE("each visits every element once, and a later loop reads its results") {
  std::vector<int> seen(77);
  team{}.each(77, [&](std::ptrdiff_t i) { ++seen[static_cast<std::size_t>(i)]; });
  CHECK(team{}.sum(77, [&](std::ptrdiff_t i) { return seen[static_cast<std::size_t>(i)]; }) == 77);
  CHECK(seen == std::vector<int>(77, 1));
}
