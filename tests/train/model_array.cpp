// sanitizers: address

#include <gpipe/train/model_array.hpp>

#include <doctest/doctest.h>

using namespace gpipe;
using namespace gpipe::detail;

TEST_CASE("an array of a layer is found by its name") {
  constexpr parameter parameters[] = {{"weight", {3, 7}}, {"bias", {7}}};
  layer_type r;
  r.name = "it";
  r.parameters = parameters;
  r.parameter_count = 2;
  CHECK(find_array(r, 4, "weight", array_kind::parameter) == named_array{4, 0});
  CHECK(find_array(r, 4, "bias", array_kind::parameter) == named_array{4, 1});
  CHECK_THROWS_WITH_AS(find_array(r, 4, "gain", array_kind::parameter),
                       doctest::Contains("the layer has no parameter \"gain\"; its parameters: weight, bias"), error);
  CHECK_THROWS_WITH_AS(find_array(r, 4, "mean", array_kind::state),
                       doctest::Contains("the layer has no state \"mean\"; its state: none"), error);
}
