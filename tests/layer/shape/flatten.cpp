// optimize: yes

#include <gpipe/layer/shape/flatten.hpp>

#include <doctest/doctest.h>

#include <type_traits>

using namespace gpipe;
using namespace gpipe::detail;

using flat = bound<flatten, tensor<float, 8, 3, 2>>;
static_assert(flat::view && flat::parameters.empty() && flat::cost.forward == 0);
static_assert(std::is_same_v<flat::output, tensor<float, 48>>);
static_assert(std::is_same_v<bound<flatten, tensor<float, 5>>::output, tensor<float, 5>>);
static_assert(std::is_same_v<bound<flatten, tensor<float>>::output, tensor<float, 1>>);

TEST_CASE("flatten makes one row of a sample's elements") { CHECK(flat::input::size == flat::output::size); }
