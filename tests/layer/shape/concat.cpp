// optimize: yes

#include <gpipe/layer/shape/concat.hpp>

#include <doctest/doctest.h>

#include <type_traits>
#include <vector>

#include <gpipe/device/host/context.hpp>
#include <gpipe/layer/shape/split.hpp>
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

using feature_maps = tensor<float, 3, 4, 5>;
static_assert(axis_of(-1, 3) == 2 && axis_of(0, 3) == 0);
static_assert(row_width<feature_maps>(0) == 60 && row_width<feature_maps>(1) == 20 && row_width<feature_maps>(2) == 5);
static_assert(std::is_same_v<with_extent<feature_maps, 1, 9>, tensor<float, 3, 9, 5>>);
static_assert(differ_only_in<feature_maps, tensor<float, 7, 4, 5>>(0) &&
              !differ_only_in<feature_maps, tensor<float, 7, 4, 5>>(2));
static_assert(!differ_only_in<feature_maps, tensor<double, 3, 4, 5>>(0) &&
              !differ_only_in<feature_maps, tensor<float, 3, 4>>(0));
static_assert(!differ_only_in<feature_maps, feature_maps>(3) && !differ_only_in<feature_maps, feature_maps>(-1));

TEST_CASE("slices of two rows are joined and cut again; a slice without memory is left out") {
  const float left[] = {1, 2, 6, 7}, right[] = {3, 4, 5, 8, 9, 10};
  std::vector<float> whole(10), back(6);
  const host::context c;
  c.rows(2, join_rows<float, 2>{{{2, 3}, {left, right}}, whole.data(), 5});
  CHECK(whole == std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  c.rows(2, cut_rows<float, 2>{whole.data(), {{2, 3}, {nullptr, back.data()}}, 5});
  CHECK(back == std::vector<float>(right, right + 6));
}

using parts_of = split<2, 1, 3>;
static_assert(std::is_same_v<bound<parts_of, tensor<float, 4, 6>>::output,
                             bundle<tensor<float, 4, 2>, tensor<float, 4, 1>, tensor<float, 4, 3>>>);
static_assert(!takes<parts_of, tensor<float, 7>> && !takes<parts_of, tensor<float>> &&
              !takes<parts_of, tensor<std::int32_t, 6>>);

TEST_CASE("split cuts each row, and joins the gradients of its parts") {
  host::layer_fixture<parts_of, tensor<float, 4, 6>> t(2, 3);
  t.randomize(1);
  t.forward();
  t.backward_input();
  constexpr std::size_t widths[] = {2, 1, 3};
  for (std::size_t row = 0; row < 8; ++row)
    for (std::size_t k = 0, at = row * 6; k < 3; at += widths[k++])
      for (std::size_t i = 0; i < widths[k]; ++i) {
        CHECK(t.out[k].get(row * widths[k] + i) == t.in[0].get(at + i));
        CHECK(t.in_gradient[0].get(at + i) == t.out_gradient[k].get(row * widths[k] + i));
      }
  CHECK(t.overrun().empty());
}
