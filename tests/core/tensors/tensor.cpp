#include <gpipe/core/tensors/tensor.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <type_traits>

using namespace gpipe;
using namespace gpipe::detail;

using picture = tensor<float, 3, 32, 16>;
static_assert(picture::rank == 3 && picture::size == 3 * 32 * 16 && picture::extents[1] == 32);
static_assert(std::is_same_v<picture::value_type, float>);
static_assert(tensor<double>::rank == 0 && tensor<double>::size == 1);
static_assert(tensor<float, 65536, 65536>::size == std::size_t{1} << 32, "sizes do not overflow an int");

static_assert(edge<picture> && edge<bundle<>> && edge<bundle<picture, tensor<std::int32_t>>>);
static_assert(!edge<float> && !edge<bundle<picture, float>> && !edge<bundle<bundle<picture>>>);

static_assert(parts<picture> == 1 && parts<bundle<>> == 0 && parts<bundle<picture, tensor<double>>> == 2);
static_assert(std::is_same_v<part<picture, 0>, picture>);
static_assert(std::is_same_v<part<bundle<picture, tensor<double>>, 0>, picture>);
static_assert(std::is_same_v<part<bundle<picture, tensor<double>>, 1>, tensor<double>>);

TEST_CASE("a tensor type is empty") { CHECK(std::is_empty_v<picture>); }
