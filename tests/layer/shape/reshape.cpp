// optimize: yes

#include <gpipe/layer/shape/reshape.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <type_traits>

using namespace gpipe;
using namespace gpipe::detail;

using flat = bound<reshape<784>, tensor<float, 28, 28>>;
static_assert(flat::view && flat::parameters.empty() && flat::cost.forward == 0);
static_assert(std::is_same_v<flat::output, tensor<float, 784>>);
static_assert(std::is_same_v<bound<reshape<2, 3>, tensor<std::int32_t, 6>>::output, tensor<std::int32_t, 2, 3>>);

TEST_CASE("reshape keeps the number of elements") { CHECK(flat::input::size == flat::output::size); }
