#include <gpipe/layer/attention/rotary.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <vector>

#include <gpipe/core/numbers/bf16.hpp>
#include <gpipe/device/host/context.hpp>

using namespace gpipe;

namespace {

const host::context here;
constexpr int width = 6, tokens = 7, heads = 2, stride = 15;  // two heads and three numbers that stay

template <class Number>
std::vector<Number> table() {
  std::vector<Number> angles(std::size_t{tokens} * width);
  here.each(std::ptrdiff_t{tokens} * width / 2, gpipe::detail::tabulate_angles<Number>{angles.data(), width, 100});
  return angles;
}

}  // namespace

TEST_CASE("a pair's angle is the position times base^(-2 i / width)") {
  const auto angles = table<double>();
  for (int t = 0; t < tokens; ++t)
    for (int i = 0; i < 3; ++i) {
      const double angle = t * std::pow(100, -2.0 * i / 6);
      CHECK(angles[static_cast<std::size_t>(t * width + i)] == doctest::Approx(std::cos(angle)));
      CHECK(angles[static_cast<std::size_t>(t * width + 3 + i)] == doctest::Approx(std::sin(angle)));
    }
}

TEST_CASE_TEMPLATE("turning back restores the heads, and the rest of a row stays", T, double, float, bf16) {
  using number = compute_type<T>;
  const auto angles = table<number>();
  std::vector<T> rows(std::size_t{2} * tokens * stride);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<number>(std::sin(3 * i + 1));
  const auto before = rows;
  const auto turn = [&](bool back) {
    here.rows(2 * tokens, gpipe::detail::turn_pairs<T>{rows.data(), angles.data(), stride, heads, width, tokens, back});
  };
  turn(false);
  for (std::size_t row = 0; row < 2 * tokens; ++row)
    for (std::size_t head = 0; head < heads; ++head)
      for (std::size_t i = 0; i < 3; ++i) {
        const std::size_t at = row * stride + head * width + i, t = row % tokens;
        const double a = static_cast<double>(before[at]), b = static_cast<double>(before[at + 3]);
        const double angle = static_cast<double>(t) * std::pow(100, -2.0 * static_cast<double>(i) / 6);
        const double wanted = a * std::cos(angle) - b * std::sin(angle),
                     other = b * std::cos(angle) + a * std::sin(angle);
        CHECK(static_cast<double>(rows[at]) == doctest::Approx(wanted).epsilon(0.01));
        CHECK(static_cast<double>(rows[at + 3]) == doctest::Approx(other).epsilon(0.01));
      }
  turn(true);
  for (std::size_t i = 0; i < rows.size(); ++i)
    CHECK(static_cast<double>(rows[i]) == doctest::Approx(static_cast<double>(before[i])).epsilon(0.01));
  for (std::size_t row = 0; row < 2 * tokens; ++row)
    for (std::size_t i = heads * width; i < stride; ++i)
      CHECK(static_cast<number>(rows[row * stride + i]) == static_cast<number>(before[row * stride + i]));
}
