#pragma once

#include <type_traits>

namespace gpipe::broken {

/// The condition of a promise. Clang prints its arguments, with the layer and its position, in the line of the error.
template <bool Holds, class... Where>
inline constexpr bool holds = Holds;

}  // namespace gpipe::broken

namespace gpipe::detail {

/// A layer may name the promise that an input breaks, before its `on<In>` exists. The error of a model then has the
/// position and the path of the layer, for which the promise has a last argument:
///
///     template <class In, class... Position>
///     using refusal = detail::first_broken<
///         detail::unless<(In::size % 2 == 0), broken::my_promise<my_layer, In, false, Position...>>, ...>;
///
/// `static_assert(detail::accepted<refusal<In>>)` in `on<In>` is for a layer without a model.
template <bool Holds, class Promise>
using unless = std::conditional_t<Holds, void, Promise>;

/// The first promise that does not hold; void if all do.
template <class... Promises>
struct first_promise {
  using type = void;
};
template <class First, class... Rest>
struct first_promise<First, Rest...> {
  using type = First;
};
template <class... Rest>
struct first_promise<void, Rest...> : first_promise<Rest...> {};
template <class... Promises>
using first_broken = typename first_promise<Promises...>::type;

template <class Refusal>
inline constexpr bool accepted = sizeof(Refusal) > 0;
template <>
inline constexpr bool accepted<void> = true;

/// The promise of a layer that this input breaks; void if there is none, or if the layer names none.
template <class Layer, class In, class... Position>
struct refusal_of {
  using type = void;
};
template <class Layer, class In, class... Position>
requires requires { typename Layer::template refusal<In, Position...>; }
struct refusal_of<Layer, In, Position...> {
  using type = typename Layer::template refusal<In, Position...>;
};
template <class Layer, class In>
concept refusing = !std::is_void_v<typename refusal_of<Layer, In>::type>;

}  // namespace gpipe::detail
