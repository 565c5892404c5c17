#pragma once

#include <type_traits>

namespace gpipe::detail {

// change: a component header; calls that need it
/// Whether a program includes the header that completes a type. A part of the library that is not included costs
/// nothing, and a call that needs it is an error that names its header.
template <class Part>
concept included = requires {
  sizeof(Part);
};

// The assertion fails inside a function: after a failed class, clang prints further errors.
template <class Promise>
constexpr auto assert_that() {
  static_cast<void>(sizeof(Promise));
  return std::true_type{};  // the type does not depend on the promise, so that the caller produces no further error
}
template <class Promise>
using asserted = decltype(assert_that<Promise>());

/// A setting under its name in another library, which no program can set: the promise's error names ours. It is
/// declared after the settings of its struct and takes no memory:
///
///     [[no_unique_address]] detail::named_elsewhere<broken::fit_has_a_batch> batch_size{};
template <template <class Given, bool Holds> class Promise>
struct named_elsewhere {
  constexpr named_elsewhere() = default;
  template <class Number>
  requires std::is_arithmetic_v<Number>
  constexpr named_elsewhere(Number) { static_assert(sizeof(Promise<Number, std::is_class_v<Number>>) > 0); }
};

}  // namespace gpipe::detail
