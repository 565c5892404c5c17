// optimize: yes

#include <gpipe/layer/shape/slices.hpp>

#include <doctest/doctest.h>

#include <type_traits>
#include <vector>

#include <gpipe/device/host/context.hpp>

using namespace gpipe;
using namespace gpipe::detail;

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
