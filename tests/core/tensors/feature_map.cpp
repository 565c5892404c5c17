#include <gpipe/core/tensors/feature_map.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <type_traits>

using namespace gpipe::detail;
using gpipe::bf16;
using gpipe::bundle;
using gpipe::tensor;

using image = gpipe::feature_map<float, 3, 32, 16>;
static_assert(image::channels == 3 && image::height == 32 && image::width == 16 && image::pixels == 32 * 16);
static_assert(image::rank == 3 && image::size == 3 * 32 * 16 && image::extents[0] == 3 && image::extents[2] == 16);
static_assert(gpipe::feature_map<float, 65536, 256, 256>::size == std::size_t{1} << 32, "sizes do not overflow an int");

static_assert(edge<image> && edge<bundle<image, tensor<std::int32_t>>> && parts<image> == 1);
static_assert(std::is_same_v<part<image, 0>, image> && std::is_same_v<part<bundle<tensor<int>, image>, 1>, image>);
static_assert(!std::is_same_v<image, tensor<float, 3, 32, 16>>, "their memory differs");

static_assert(floating_map<image> && floating_tensor<image> && !floating_map<tensor<float, 3, 32, 16>>);
static_assert(!floating_map<gpipe::feature_map<std::int32_t, 3, 2, 2>> &&
              is_feature_map<gpipe::feature_map<std::int32_t, 3, 2, 2>>);
static_assert(std::is_same_v<with_element<image, bf16>, gpipe::feature_map<bf16, 3, 32, 16>>);
static_assert(std::is_same_v<with_element<tensor<float, 4>, bf16>, tensor<bf16, 4>>);

TEST_CASE("a feature map type is empty") { CHECK(std::is_empty_v<image>); }
