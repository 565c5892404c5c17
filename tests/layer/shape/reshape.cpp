// optimize: yes

#include <gpipe/layer/shape/reshape.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <type_traits>

#include <gpipe/layer/shape/flatten.hpp>

using namespace gpipe;
using namespace gpipe::detail;

using flat = bound<reshape<784>, tensor<float, 28, 28>>;
static_assert(flat::view && flat::parameters.empty() && flat::cost.forward == 0);
static_assert(std::is_same_v<flat::output, tensor<float, 784>>);
static_assert(std::is_same_v<bound<reshape<2, 3>, tensor<std::int32_t, 6>>::output, tensor<std::int32_t, 2, 3>>);

TEST_CASE("reshape keeps the number of elements") { CHECK(flat::input::size == flat::output::size); }

using one_row = bound<flatten, tensor<float, 8, 3, 2>>;
static_assert(one_row::view && one_row::parameters.empty() && one_row::cost.forward == 0);
static_assert(std::is_same_v<one_row::output, tensor<float, 48>>);
static_assert(std::is_same_v<bound<flatten, tensor<float, 5>>::output, tensor<float, 5>>);
static_assert(std::is_same_v<bound<flatten, tensor<float>>::output, tensor<float, 1>>);

TEST_CASE("flatten makes one row of a sample's elements") { CHECK(one_row::input::size == one_row::output::size); }
