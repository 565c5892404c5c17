#pragma once

// Numbers with their units, and tables, as text.

#include <cstdint>
#include <string>
#include <vector>

#include <gpipe/core/error.hpp>
#include <gpipe/core/text/quantity.hpp>

namespace example {

using gpipe::detail::counted, gpipe::detail::fixed, gpipe::detail::concat, gpipe::detail::several, gpipe::detail::sized;

/// Rows of words; the header is first.
using table = std::vector<std::vector<std::string>>;

inline std::string time(std::int64_t ns) {
  const char* units[] = {" ns", " us", " ms", " s"};
  double value = static_cast<double>(ns);
  int unit = 0;
  for (; value >= 999.5 && unit < 3; ++unit) value /= 1000;
  return unit == 0 ? fixed(value, 0) + units[0] : gpipe::detail::significant(value, 4) + units[unit];
}
inline std::string percent(double share) { return fixed(100 * share, 1) + " %"; }
inline std::string bytes(std::int64_t count) { return sized(static_cast<std::uint64_t>(count)); }

}  // namespace example
