#include <gpipe/core/tensors/tensor.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <type_traits>

using namespace gpipe;
using namespace gpipe::detail;

using image = tensor<float, 3, 32, 16>;
static_assert(image::rank == 3 && image::size == 3 * 32 * 16 && image::extents[1] == 32);
static_assert(std::is_same_v<image::value_type, float>);
static_assert(tensor<double>::rank == 0 && tensor<double>::size == 1);
static_assert(tensor<float, 65536, 65536>::size == std::size_t{1} << 32, "sizes do not overflow an int");

static_assert(edge<image> && edge<bundle<>> && edge<bundle<image, tensor<std::int32_t>>>);
static_assert(!edge<float> && !edge<bundle<image, float>> && !edge<bundle<bundle<image>>>);

static_assert(parts<image> == 1 && parts<bundle<>> == 0 && parts<bundle<image, tensor<double>>> == 2);
static_assert(std::is_same_v<part<image, 0>, image>);
static_assert(std::is_same_v<part<bundle<image, tensor<double>>, 0>, image>);
static_assert(std::is_same_v<part<bundle<image, tensor<double>>, 1>, tensor<double>>);

TEST_CASE("a tensor type is empty") { CHECK(std::is_empty_v<image>); }
