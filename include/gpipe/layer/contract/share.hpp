#pragma once

#include <string_view>

#include <gpipe/core/numbers/double_bits.hpp>
#include <gpipe/core/text/type_name.hpp>

namespace gpipe::detail {

/// A number as a template argument, or a whole number of parts, of which there are `Parts`: `dropout<0.1>` is
/// `dropout<10>`, one type. It is a class, because clang++ before 18 has no template arguments of floating point.
template <int Parts>
struct share {
  double_bits value;

  constexpr share(double number) : value(number) {}
  constexpr share(double_bits number) : value(number) {}  // called by the code that nvcc writes
  constexpr share(int parts) : value(static_cast<double>(parts) / Parts) {}
  constexpr operator double() const { return value; }

  /// The nearest number of parts, and whether it is this number.
  constexpr int parts() const { return static_cast<int>(value * Parts + (value < 0 ? -0.5 : 0.5)); }
  constexpr bool is_whole() const { return static_cast<double>(parts()) / Parts == double{value}; }
  /// 1 / (1 - share), rounded once if it has whole parts.
  constexpr double inverse_of_rest() const {
    return is_whole() ? static_cast<double>(Parts) / (Parts - parts()) : 1 / (1 - double{value});
  }
};

/// The name of a layer with a share, such as `dropout<10>` or `dropout<0.125>`: up to six digits after the point.
template <int Parts>
constexpr short_name name_with(std::string_view layer, share<Parts> number) {
  short_name name;
  name << layer << "<";
  if (number.is_whole()) {
    name << number.parts();
  } else {
    auto millionths = static_cast<int>(number.value * 1e6 + 0.5);
    name << millionths / 1'000'000 << ".";
    for (int digit = 100'000; (millionths %= digit * 10) > 0; digit /= 10) name << millionths / digit;
  }
  name << ">";
  return name;
}

}  // namespace gpipe::detail
