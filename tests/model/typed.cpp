#include <gpipe/model/typed.hpp>

#include <doctest/doctest.h>

#include <type_traits>

#include "support/layers.hpp"

using namespace gpipe;
using namespace gpipe::detail;
using laws::cross;
using laws::halve;
using laws::join;

namespace {

using eight = tensor<float, 8>;
using halves = bundle<tensor<float, 4>, tensor<float, 4>>;

template <int Position, class Edge, class... Items>
using walk = typed_sequence<Position, flow<Edge>, list<Items...>>;
template <class A, class B>
inline constexpr bool same = std::is_same_v<A, B>;
constexpr bool equal(extent_counts a, extent_counts b) {
  return a.types == b.types && a.layers == b.layers && a.values == b.values && a.reads == b.reads &&
         a.fields == b.fields && a.skips == b.skips;
}

using there_and_back = walk<0, eight, halve, cross, join>;
static_assert(same<there_and_back::after, flow<eight>>);
static_assert(equal(there_and_back::counts, {3, 3, 5, 5, 0, 0}));

// More items than one step takes.
using long_one = walk<0, halves, cross, cross, cross, cross, cross, cross, cross, cross, cross, cross, cross, cross,
                      cross, cross, cross, cross, cross, cross, cross, join, laws::passing_loss>;
static_assert(equal(long_one::counts, {21, 21, 40, 41, 2, 0}));

// A body that returns its input flow is one type for all its repetitions ...
using steady = walk<0, halves, repeat<5, cross>>;
static_assert(equal(steady::counts, {1, 5, 10, 10, 0, 0}));
using nested = walk<0, eight, repeat<3, halve, repeat<4, cross>, join>>;
static_assert(equal(nested::counts, {3, 18, 33, 33, 0, 0}));
// ... a body that changes the flow has two.
struct widen {
  template <class In>
  struct on {
    using output = tensor<float, 16>;
  };
};
using changing = walk<0, eight, repeat<5, widen>>;
static_assert(equal(changing::counts, {2, 5, 5, 5, 0, 0}));
static_assert(same<changing::after, flow<tensor<float, 16>>>);
using both_change = walk<0, eight, repeat<3, repeat<2, widen>>>;
static_assert(equal(both_change::counts, {3, 6, 6, 6, 0, 0}));

// Stashes and pops are not layers; a residual adds one layer, the addition.
using skipping = walk<0, eight, stash<"x">, halve, join, pop<"x">, add>;
static_assert(equal(skipping::counts, {3, 3, 4, 5, 0, 1}));
static_assert(same<skipping::after, flow<eight, skip<stash<"x">, eight, true>>>);
using around = walk<0, eight, residual<halve, join>>;
static_assert(equal(around::counts, {3, 3, 4, 5, 0, 1}));
static_assert(same<around::after, flow<eight>>);
// A pop, inside a repeat, of an outer stash changes the flow once: from unread to read.
using reading = walk<0, eight, stash<"x">, repeat<4, pop<"x">, add>>;
static_assert(equal(reading::counts, {2, 4, 4, 8, 0, 1}));

// A mistake produces no further errors.
static_assert(same<typed<3, halve, unknown<int>>::after, unknown<int>>);
static_assert(equal(typed<3, halve, unknown<>>::counts, {}));

// emit writes every layer, in order, with the type that it repeats.
struct recorder {
  int types[32]{}, count = 0, next = 0, depth = 0, deepest = 0, popped = -1;
  template <class Bound>
  constexpr void layer() {
    types[count++] = next++;
  }
  constexpr void stash() { ++depth; }
  constexpr void stash(int) { ++depth; }
  constexpr void rejoin() { --depth; }
  constexpr void pop(int above) { popped = above; }
  constexpr int enter() { return deepest = depth; }
  constexpr void leave(int to) { depth = to; }
  constexpr int next_type() const { return next; }
  constexpr void back_to_type(int row) { next = row; }
};
template <class Typed>
constexpr recorder emitted() {
  recorder r;
  Typed::list_into(r);
  return r;
}
constexpr recorder twice = emitted<walk<0, eight, repeat<2, halve, repeat<2, cross>, join>, widen>>();
static_assert(twice.count == 9 && twice.next == 4);
constexpr int expected[] = {0, 1, 1, 2, 0, 1, 1, 2, 3};
static_assert([] {
  for (int i = 0; i < 9; ++i)
    if (twice.types[i] != expected[i]) return false;
  return true;
}());
static_assert(emitted<walk<0, eight, stash<"x">, residual<halve, join>, pop<"x">, add>>().popped == 0);
static_assert(emitted<walk<0, eight, stash<"x">, stash<"y">, pop<"x">, add, pop<"y">, add>>().depth == 2);

}  // namespace

TEST_CASE("items become layers") { CHECK(twice.count == 9); }
