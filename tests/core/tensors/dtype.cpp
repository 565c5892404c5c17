#include <gpipe/core/tensors/dtype.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <string_view>

using namespace gpipe;
using namespace gpipe::detail;

template <class T>
constexpr bool agrees = bytes_of(dtype_of<T>) == sizeof(T) && is_floating(dtype_of<T>) == std::is_floating_point_v<T>;

static_assert(bytes_of(dtype::bf16) == sizeof(bf16) && is_floating(dtype::bf16));
static_assert(agrees<float> && agrees<double> && agrees<std::int32_t> && agrees<std::uint8_t>);
static_assert(element<float> && element<std::uint8_t> && element<bf16>);
static_assert(!element<long double> && !element<std::int64_t> && !element<const float> && !element<bool>);

template <class... T>
constexpr bool round_trip = (std::is_same_v<element_of<dtype_of<T>>, T> && ...);
static_assert(round_trip<float, double, std::int32_t, std::uint8_t, bf16>);
static_assert(std::is_same_v<compute_type<bf16>, float> && std::is_same_v<compute_type<double>, double>);

template <class T, class... Listed>
constexpr bool visits = visit_dtype<Listed...>(dtype_of<T>, []<class V>() { return std::is_same_v<V, T>; });
static_assert(visits<float> && visits<double> && visits<std::int32_t> && visits<std::uint8_t> && visits<bf16>);
static_assert(visits<float, double, float> && visits<double, double, float> && visits<bf16, double, bf16, float>);

TEST_CASE("each dtype has a distinct name") {
  CHECK(name_of(dtype::float32) == std::string_view("float"));
  CHECK(name_of(dtype::float64) == std::string_view("double"));
  CHECK(name_of(dtype::int32) == std::string_view("int32"));
  CHECK(name_of(dtype::uint8) == std::string_view("uint8"));
  CHECK(name_of(dtype::bf16) == std::string_view("bf16"));
}
