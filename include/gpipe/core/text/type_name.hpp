#pragma once

#include <cstddef>
#include <string_view>

namespace gpipe::detail {

template <class T>
constexpr std::string_view signature() {
#if defined(__clang__) || defined(__GNUC__)
  return __PRETTY_FUNCTION__;
#else
  return __FUNCSIG__;
#endif
}

// The position of a type's name in a function signature is measured with a type whose name is known.
inline constexpr std::size_t name_before = signature<double>().find("double");
inline constexpr std::size_t name_after = signature<double>().size() - name_before - 6;

constexpr std::string_view without_namespace(std::string_view name) {
  constexpr std::string_view ours = "gpipe::";
  return name.starts_with(ours) ? name.substr(ours.size()) : name;
}

/// A type's name as the compiler writes it, without `gpipe::` in front: `linear<512>`.
template <class T>
inline constexpr std::string_view type_name = detail::without_namespace(detail::signature<T>().substr(
    detail::name_before, detail::signature<T>().size() - detail::name_before - detail::name_after));

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
