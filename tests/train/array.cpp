// sanitizers: address

#include <gpipe/train/array.hpp>

#include <doctest/doctest.h>

using namespace gpipe;
using namespace gpipe::detail;
using detail::find_array;

TEST_CASE("an array is found by its name, at the offset behind the previous arrays") {
  constexpr parameter parameters[] = {{"weight", {3, 7}}, {"bias", {7}}};
  row r;
  r.name = "it";
  r.parameters = parameters;
  r.parameter_count = 2;
  using place_and_size = std::pair<std::size_t, std::size_t>;
  CHECK(find_array(r, 4, "weight", dtype::float32, detail::of_parameters) == place_and_size{0, 21});
  CHECK(find_array(r, 4, "bias", dtype::float32, detail::of_parameters) == place_and_size{aligned(84), 7});
  CHECK_THROWS_WITH_AS(find_array(r, 4, "gain", dtype::float32, detail::of_parameters),
                       doctest::Contains("the layer has no parameter \"gain\"; its parameters: weight, bias"), error);
  CHECK_THROWS_WITH_AS(find_array(r, 4, "bias", dtype::float64, detail::of_parameters),
                       doctest::Contains("parameter \"bias\" is float; read it as that"), error);
  CHECK_THROWS_WITH_AS(find_array(r, 4, "mean", dtype::float32, detail::of_state),
                       doctest::Contains("the layer has no state \"mean\"; its state: none"), error);
}
