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

}  // namespace gpipe::detail
