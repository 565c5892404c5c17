#pragma once

#include <type_traits>

namespace gpipe::detail {

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
