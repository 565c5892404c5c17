#include <gpipe/model/promises.hpp>

#include <doctest/doctest.h>

#include <gpipe/layer/shape/reshape.hpp>

#include "support/layers.hpp"

// tests/compile_fail has the messages of broken promises.

using namespace gpipe;
using namespace gpipe::detail;

namespace {

struct no_layer {
  template <class In>
  void on();
};
struct silent {
  template <class In>
  struct on {};
};
struct odd_output {
  template <class In>
  struct on {
    using output = int;
  };
};
struct shrinking_view {
  template <class In>
  struct on {
    using output = tensor<float, 3>;
    static constexpr bool view = true;
  };
};
struct no_view : shrinking_view {
  template <class In>
  struct on : shrinking_view::on<In> {
    static constexpr bool view = false;
  };
};
using four = tensor<float, 4>;

static_assert(bindable<laws::halve> && !bindable<no_layer> && !bindable<int>);
static_assert(accepting<laws::halve, four>);
static_assert(!accepting<laws::halve, bundle<four, four>> && !accepting<laws::join, four>);
static_assert(naming_output<laws::halve, four> && !naming_output<silent, four> && !naming_output<odd_output, four>);
static_assert(keeps_size<0, reshape<2, 2>, four>() && keeps_size<0, laws::halve, four>());
static_assert(!keeps_size<0, shrinking_view, four>() && keeps_size<0, shrinking_view, tensor<float, 3>>());
static_assert(!keeps_size<0, shrinking_view, tensor<double, 3>>());
static_assert(keeps_size<0, no_view, four>());
static_assert(asserted<broken::pop_has_a_stash<broken::position<0>, int, int, true>>::value);

// A layer's position names what is around it: its path if an item has a name, the structs derived from a sequence, and
// the stash that its list stores next, unless an `only` comes before. The model's own list says nothing.
template <class A, class B>
inline constexpr bool same = std::is_same_v<A, B>;
using laws::halve;
using laws::join;
struct block : sequence<halve, stash<"x">, join> {};
using items = list<halve, stash<"outer">, join, block, scope<halve, only<pop<"outer">>, stash<"far">>,
                   named<"a", repeat<3, halve, block, stash<"y">>>, residual<halve, join, stash<"z">>>;
static_assert(same<position_of<items, 0>, broken::position<0>>);
static_assert(same<position_of<items, 1>, broken::position<1>>);
static_assert(same<position_of<items, 2>, broken::position<2, block, broken::before_stash<'x'>>>);
static_assert(same<position_of<items, 3>, broken::position<3, block>>);
static_assert(same<position_of<items, 4>, broken::position<4>>);
static_assert(
    same<position_of<items, 8>, broken::position<8, broken::path<'a', '.', '1', '.', '0'>, broken::before_stash<'y'>>>);
static_assert(
    same<position_of<items, 10>,
         broken::position<10, broken::path<'a', '.', '1', '.', '1', '.', '2'>, broken::before_stash<'y'>, block>>);
static_assert(same<position_of<items, 15>, broken::position<15, broken::before_stash<'z'>>>);
static_assert(same<position_of<items, 17>, broken::position<17>>);
using mistake_of_10 = broken::pop_has_a_stash<broken::position<10>, int, int, false>;
static_assert(
    same<placed<mistake_of_10, items>::type, broken::pop_has_a_stash<position_of<items, 10>, int, int, false>>);

}  // namespace

TEST_CASE("promises are checked one at a time") { CHECK(bindable<laws::halve>); }
