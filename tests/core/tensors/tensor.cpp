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

static_assert(shape{}.size() == 1 && shape{}.rank == 0);
static_assert(shape{512, 64}.rank == 2 && shape{512, 64}.extents[1] == 64);
static_assert(shape{65536, 65536}.size() == std::size_t{1} << 32, "sizes do not overflow an int");
static_assert(shape(tensor<float, 2, 3, 4>::extents) == shape{2, 3, 4});
static_assert(shape{2, 3} != shape{3, 2} && shape{2} != shape{2, 1});

TEST_CASE("a shape can have six extents") { CHECK(shape{1, 2, 3, 4, 5, 6}.size() == 720); }

using map = feature_map<float, 3, 32, 16>;
static_assert(map::channels == 3 && map::height == 32 && map::width == 16 && map::pixels == 32 * 16);
static_assert(map::rank == 3 && map::size == 3 * 32 * 16 && map::extents[0] == 3 && map::extents[2] == 16);
static_assert(feature_map<float, 65536, 256, 256>::size == std::size_t{1} << 32, "sizes do not overflow an int");

static_assert(edge<map> && edge<bundle<map, tensor<std::int32_t>>> && parts<map> == 1);
static_assert(std::is_same_v<part<map, 0>, map> && std::is_same_v<part<bundle<tensor<int>, map>, 1>, map>);
static_assert(!std::is_same_v<map, tensor<float, 3, 32, 16>>, "their memory differs");

static_assert(floating_map<map> && floating_tensor<map> && !floating_map<tensor<float, 3, 32, 16>>);
static_assert(!floating_map<feature_map<std::int32_t, 3, 2, 2>> && is_feature_map<feature_map<std::int32_t, 3, 2, 2>>);
static_assert(std::is_same_v<with_element<map, bf16>, feature_map<bf16, 3, 32, 16>>);
static_assert(std::is_same_v<with_element<tensor<float, 4>, bf16>, tensor<bf16, 4>>);

TEST_CASE("the type of a tensor or a feature map is empty") {
  CHECK(std::is_empty_v<image>);
  CHECK(std::is_empty_v<map>);
}

TEST_CASE("a view indexes samples, rows and columns") {
  int numbers[2 * 3 * 4];
  for (int i = 0; i < 24; ++i) numbers[i] = i;
  const view<int, 3, 4> x{numbers};
  CHECK(x(0, 0, 0) == 0);
  CHECK(x(0, 2, 3) == 11);
  CHECK(x(1, 0, 1) == 13);
  x(1, 2, 3) = 7;
  CHECK(numbers[23] == 7);
}

TEST_CASE("a view without extents has one number per sample") {
  static constexpr int numbers[] = {5, 6};
  constexpr view<const int> x{numbers};
  static_assert(x(1) == 6);
}
