#include <gpipe/core/tensors/feature_map.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <type_traits>

using namespace gpipe::detail;
using gpipe::bf16;
using gpipe::bundle;
using gpipe::tensor;

using picture = gpipe::feature_map<float, 3, 32, 16>;
static_assert(picture::channels == 3 && picture::height == 32 && picture::width == 16 && picture::pixels == 32 * 16);
static_assert(picture::rank == 3 && picture::size == 3 * 32 * 16 && picture::extents[0] == 3 &&
              picture::extents[2] == 16);
static_assert(gpipe::feature_map<float, 65536, 256, 256>::size == std::size_t{1} << 32, "sizes do not overflow an int");

static_assert(edge<picture> && edge<bundle<picture, tensor<std::int32_t>>> && parts<picture> == 1);
static_assert(std::is_same_v<part<picture, 0>, picture> &&
              std::is_same_v<part<bundle<tensor<int>, picture>, 1>, picture>);
static_assert(!std::is_same_v<picture, tensor<float, 3, 32, 16>>, "their memory differs");

static_assert(floating_map<picture> && floating_tensor<picture> && !floating_map<tensor<float, 3, 32, 16>>);
static_assert(!floating_map<gpipe::feature_map<std::int32_t, 3, 2, 2>> &&
              is_feature_map<gpipe::feature_map<std::int32_t, 3, 2, 2>>);
static_assert(std::is_same_v<with_element<picture, bf16>, gpipe::feature_map<bf16, 3, 32, 16>>);
static_assert(std::is_same_v<with_element<tensor<float, 4>, bf16>, tensor<bf16, 4>>);

TEST_CASE("a feature map type is empty") { CHECK(std::is_empty_v<picture>); }
