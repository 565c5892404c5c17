#pragma once

#include <cstddef>
#include <string_view>

namespace gpipe::detail {

/// A name that a layer makes of its options in constant evaluation: `conv2d<64, 3, stride 2>`.
struct short_name {
  char letters[96]{};
  std::size_t size = 0;

  constexpr short_name& operator<<(std::string_view text) {
    for (const char c : text)
      if (size < sizeof letters) letters[size++] = c;
    return *this;
  }
  constexpr short_name& operator<<(int number) {
    if (number < 0) return *this << "-" << -number;
    if (number > 9) *this << number / 10;
    const char digit = static_cast<char>('0' + number % 10);
    return *this << std::string_view(&digit, 1);
  }
};

}  // namespace gpipe::detail
