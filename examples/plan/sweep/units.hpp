#pragma once

// The units of a page.

#include <cmath>
#include <cstdint>
#include <string>

#include "../text.hpp"

namespace example {

/// Bytes in a second, which vendors count in powers of ten: "25 GB/s".
inline std::string rate(std::int64_t bytes_per_second) {
  const char* units[] = {" B/s", " kB/s", " MB/s", " GB/s", " TB/s"};
  double value = static_cast<double>(bytes_per_second);
  int unit = 0;
  for (; value >= 999.5 && unit < 4; ++unit) value /= 1000;
  return gpipe::detail::significant(value, 3) + units[unit];
}

/// The unit of an axis that ends at a time: 1, 1e3, 1e6 or 1e9 ns, and its name.
inline int power_of(double ns) { return ns < 1e3 ? 0 : ns < 1e6 ? 1 : ns < 1e9 ? 2 : 3; }
inline double unit_of(double ns) { return std::pow(1e3, power_of(ns)); }
inline const char* name_of_unit(double ns) {
  constexpr const char* names[] = {"ns", "us", "ms", "s"};
  return names[power_of(ns)];
}

}  // namespace example
