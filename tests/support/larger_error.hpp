#pragma once

/// The larger of two errors. One that is not a number, as of an element that nothing wrote, is larger than every other
/// and stays so; `std::max` and `std::fmax` drop it.
constexpr double larger_error(double a, double b) { return a >= b || a != a ? a : b; }
