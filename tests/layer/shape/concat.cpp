// optimize: yes

#include <gpipe/layer/shape/concat.hpp>

#include <doctest/doctest.h>

#include <type_traits>

#include <gpipe/tools/testing/layer_fixture.hpp>

using namespace gpipe;
using namespace gpipe::detail;

template <class Layer, class In>
concept takes = requires {
  sizeof(typename Layer::template on<In>);
};

using wide = bundle<tensor<float, 2, 3>, tensor<float, 2, 1>, tensor<float, 2, 2>>;
static_assert(std::is_same_v<bound<gpipe::concat<>, wide>::output, tensor<float, 2, 6>>);
static_assert(std::is_same_v<bound<gpipe::concat<0>, bundle<tensor<bf16, 2, 3, 4>, tensor<bf16, 5, 3, 4>>>::output,
                             tensor<bf16, 7, 3, 4>>);
static_assert(!takes<gpipe::concat<0>, wide> && !takes<gpipe::concat<>, tensor<float, 2>>);
static_assert(!takes<gpipe::concat<>, bundle<tensor<float, 2>, tensor<double, 2>>>);
static_assert(bound<gpipe::concat<>, wide>::cost.bytes == 2 * 12 * 4);

TEST_CASE("concat places the rows of its inputs side by side, and returns each its part of the gradient") {
  host::layer_fixture<gpipe::concat<>, wide> t(3, 4);
  t.randomize(1);
  t.forward();
  t.backward_input();
  constexpr std::size_t widths[] = {3, 1, 2};
  for (std::size_t row = 0; row < 6; ++row)
    for (std::size_t k = 0, at = row * 6; k < 3; at += widths[k++])
      for (std::size_t i = 0; i < widths[k]; ++i) {
        CHECK(t.out[0].get(at + i) == t.in[k].get(row * widths[k] + i));
        CHECK(t.in_gradient[k].get(row * widths[k] + i) == t.out_gradient[0].get(at + i));
      }
  CHECK(t.overrun().empty());
}

TEST_CASE("concat<0> appends channels") {
  host::layer_fixture<gpipe::concat<0>, bundle<tensor<float, 2, 3>, tensor<float, 1, 3>>> t(2, 2);
  t.randomize(1);
  t.forward();
  CHECK(t.out[0].get(0) == t.in[0].get(0));
  CHECK(t.out[0].get(6) == t.in[1].get(0));
  CHECK(t.out[0].get(9) == t.in[0].get(6));
  CHECK(t.out[0].get(17) == t.in[1].get(5));
}
