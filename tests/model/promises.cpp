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
static_assert(asserted<broken::pop_has_a_stash<broken::position<0>, int, true>>::value);

}  // namespace

TEST_CASE("promises are checked one at a time") { CHECK(bindable<laws::halve>); }
