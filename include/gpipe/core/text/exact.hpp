#pragma once

#include <charconv>
#include <string>

#include <gpipe/core/config.hpp>

namespace gpipe::detail {

/// A number with as many digits as it needs to be read back.
GPIPE_COLD inline std::string exact_text(double x) {
  char digits[32];
  return std::string(digits, std::to_chars(digits, digits + sizeof digits, x).ptr);
}

}  // namespace gpipe::detail
