#pragma once

#include <limits>

/// The larger of two errors. One that is not a number, as of an element that nothing wrote, is larger than every other
/// and stays so; `std::max` and `std::fmax` drop it.
constexpr double larger_error(double a, double b) { return a >= b || a != a ? a : b; }

static_assert(larger_error(1, 2) == 2 && larger_error(2, 1) == 2);
static_assert([] {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  const double first = larger_error(nan, 1), second = larger_error(1, nan);
  return first != first && second != second;
}());
