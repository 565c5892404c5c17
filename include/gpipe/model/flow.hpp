#pragma once

#include <type_traits>

#include <gpipe/core/tensors/tensor.hpp>
#include <gpipe/model/structure/items.hpp>

namespace gpipe::detail {

/// A stashed edge, and whether a pop has read it. `Stash` is the whole type: nvcc cannot deduce the text in it.
template <class Stash, class Edge, bool Read>
struct skip {};

struct scope_mark {};    // the end of a scope's skips
struct residual_stash {  // the anonymous stash of a residual
  static constexpr const char* stashed_as = "residual";
};

/// The data between two items: the edge, and the skips, innermost first.
template <class Edge, class... Skips>
struct flow {
  using edge = Edge;
};

/// The flow after a mistake: it produces no further errors, so that one mistake is one error. The end of the model
/// reports the broken promise, with the position of its layer; void: it was reported before.
template <class Promise = void>
struct unknown {};
template <class Flow>
inline constexpr bool is_unknown = false;
template <class Promise>
inline constexpr bool is_unknown<unknown<Promise>> = true;

template <class A, class B>
struct joined;
template <class... As, class... Bs>
struct joined<bundle<As...>, bundle<Bs...>> {
  using type = bundle<As..., Bs...>;
};
template <class B>
struct joined<bundle<>, bundle<B>> {
  using type = B;
};
template <class A, class B>
using joined_edges = typename joined<typename edge_parts<A>::type, typename edge_parts<B>::type>::type;

/// Looks up a stash, innermost first: its edge, its depth among the skips, and the skips with this one marked as read.
template <class Stash, int Depth, class Before, class... Skips>
struct find_skip {
  static constexpr bool found = false;
};
template <class Stash, int Depth, class... Before, class Edge, bool Read, class... Rest>
struct find_skip<Stash, Depth, list<Before...>, skip<Stash, Edge, Read>, Rest...> {
  static constexpr bool found = true;
  static constexpr int depth = Depth;
  using edge = Edge;
  template <class Main>
  using after = flow<joined_edges<Main, Edge>, Before..., skip<Stash, Edge, true>, Rest...>;
};
template <class Stash, int Depth, class... Before, class First, class... Rest>
struct find_skip<Stash, Depth, list<Before...>, First, Rest...>
    : find_skip<Stash, Depth + (std::is_same_v<First, scope_mark> ? 0 : 1), list<Before..., First>, Rest...> {};

/// Leaves a scope: drops the scope's skips, and finds the first that no pop has read.
template <class Edge, class... Skips>
struct leave_scope {
  using after = flow<Edge>;
  using unread = void;
};
template <class Edge, class... Rest>
struct leave_scope<Edge, scope_mark, Rest...> {
  using after = flow<Edge, Rest...>;
  using unread = void;
};
template <class Edge, class Stash, class Stashed, bool Read, class... Rest>
struct leave_scope<Edge, skip<Stash, Stashed, Read>, Rest...> : leave_scope<Edge, Rest...> {
  using unread = std::conditional_t<Read, typename leave_scope<Edge, Rest...>::unread, Stash>;
};

}  // namespace gpipe::detail
