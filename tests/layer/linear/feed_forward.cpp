// optimise: yes

#include <gpipe/layer/linear/feed_forward.hpp>

#include <doctest/doctest.h>

#include <type_traits>

#include <gpipe/layer/activation/gelu.hpp>
#include <gpipe/layer/linear/linear.hpp>

using namespace gpipe;
using namespace gpipe::detail;

using wide = bound<feed_forward<32>, tensor<float, 3, 8>>;
static_assert(std::is_same_v<wide::output, tensor<float, 3, 8>>);

// The same parameters and operations as linear, gelu and linear.
using first = bound<linear<32>, tensor<float, 3, 8>>;
using between = bound<gelu, tensor<float, 3, 32>>;
using second = bound<linear<8>, tensor<float, 3, 32>>;
static_assert(wide::parameters[0].extents == first::parameters[0].extents);
static_assert(wide::parameters[1].extents == first::parameters[1].extents);
static_assert(wide::parameters[2].extents == second::parameters[0].extents);
static_assert(wide::parameters[3].extents == second::parameters[1].extents);
static_assert(wide::cost.backward_parameters == first::cost.backward_parameters + second::cost.backward_parameters);
constexpr std::int64_t separate = first::cost.forward + between::cost.forward + second::cost.forward;
static_assert(separate - wide::cost.forward == 3 * 32 + 3 * 8);  // the two biases: products add them at no cost

static_assert(wide::extras[0].size == 3 * 32 && wide::extras[1].size == 3 * 32);

TEST_CASE("the name of feed_forward contains its hidden width") { CHECK(wide::name == "feed_forward<32>"); }
