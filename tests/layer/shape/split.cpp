// optimize: yes

#include <gpipe/layer/shape/split.hpp>

#include <doctest/doctest.h>

#include <type_traits>

#include <gpipe/tools/testing/layer_fixture.hpp>

using namespace gpipe;
using namespace gpipe::detail;

template <class Layer, class In>
concept takes = requires {
  sizeof(typename Layer::template on<In>);
};

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
