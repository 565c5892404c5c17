#pragma once

#include <charconv>
#include <clocale>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>

#include <gpipe/core/config.hpp>
#include <gpipe/core/numbers/double_bits.hpp>

namespace gpipe::detail {

/// `std::from_chars` for a float or a double by the C library, which rounds correctly, too. The decimal point is '.' in
/// every locale.
template <class T>
GPIPE_COLD std::from_chars_result parse_by_strtod(const char* first, const char* last, T& value) {
  const std::string_view text(first, static_cast<std::size_t>(last - first));
  std::size_t end = 0;
  const auto read = [&](std::string_view letters) {
    const bool found = end < text.size() && letters.find(text[end]) != letters.npos;
    end += found ? 1 : 0;
    return found;
  };
  const auto digits = [&](bool& found, bool& positive) {
    for (; end < text.size() && text[end] >= '0' && text[end] <= '9'; ++end)
      found = true, positive = positive || text[end] != '0';
  };
  const auto word = [&](std::string_view lower) {
    const std::size_t begin = end;
    for (const char c : lower) {
      const char both[] = {c, static_cast<char>(c - 'a' + 'A')};
      if (!read({both, 2})) return end = begin, false;
    }
    return true;
  };
  read("-");
  bool is_number = false, is_positive = false, is_finite = false;
  if (word("inf")) {
    word("inity");
  } else if (word("nan")) {
    if (const std::size_t close = text.find(')', end); end < text.size() && text[end] == '(' && close != text.npos)
      if (text.substr(end + 1, close - end - 1)
              .find_first_not_of("0123456789_abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") == text.npos)
        end = close + 1;
  } else {
    is_finite = true;
    digits(is_number, is_positive);
    if (read(".")) digits(is_number, is_positive);
    if (!is_number) return {first, std::errc::invalid_argument};
    const std::size_t exponent = end;
    if (read("eE")) {
      read("+-");
      bool has_exponent = false, ignored = false;
      digits(has_exponent, ignored);
      if (!has_exponent) end = exponent;
    }
  }
  std::string copy(text.substr(0, end));
  if (const std::size_t point = copy.find('.'); point != copy.npos)
    copy.replace(point, 1, std::localeconv()->decimal_point);
  T parsed;
  if constexpr (std::is_same_v<T, float>) parsed = std::strtof(copy.c_str(), nullptr);
  else parsed = std::strtod(copy.c_str(), nullptr);
  if (is_finite && (!detail::is_finite(parsed) || (parsed == 0 && is_positive)))
    return {first + end, std::errc::result_out_of_range};
  value = parsed;
  return {first + end, std::errc{}};
}

/// `std::from_chars` for a float or a double, which libc++ has only from version 20 on.
template <class T>
std::from_chars_result parse_number(const char* first, const char* last, T& value) {
#if defined(_LIBCPP_VERSION) && _LIBCPP_VERSION < 200000
  return parse_by_strtod(first, last, value);
#else
  return std::from_chars(first, last, value);
#endif
}

}  // namespace gpipe::detail
