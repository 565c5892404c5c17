#include <gpipe/core/tensors/dtype.hpp>

#include <doctest/doctest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

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

static_assert(sizeof(bf16) == 2 && std::is_trivially_copyable_v<bf16>);
static_assert(std::is_trivially_default_constructible_v<bf16>);
static_assert(std::is_same_v<decltype(bf16(1.0F) * bf16(2.0F)), float>);
static_assert(bf16(1.5F) == 1.5F && bf16(1.0F).bits == 0x3f80);

namespace {

float number(std::uint32_t bits) { return std::bit_cast<float>(bits); }
std::uint32_t bits(float x) { return std::bit_cast<std::uint32_t>(x); }
bf16 raw(std::uint32_t upper) {
  bf16 x;
  x.bits = static_cast<std::uint16_t>(upper);
  return x;
}

}  // namespace

TEST_CASE("all 65,536 values convert to the float with the same upper bits, and back") {
  int wrong = 0;
  for (std::uint32_t upper = 0; upper < 0x10000; ++upper) {
    const float x = raw(upper);
    wrong += bits(x) != upper << 16;
    const std::uint32_t back = bf16(x).bits;
    wrong += back != (std::isnan(x) ? upper | 0x40 : upper);
  }
  CHECK(wrong == 0);
}

TEST_CASE("a float between two values rounds to the nearest, ties to even") {
  int wrong = 0;
  for (const std::uint32_t sign : {0U, 0x8000U})
    for (std::uint32_t upper = 0; upper < 0x7f80; ++upper) {  // the value after the largest is infinite
      const std::uint32_t below = sign | upper, above = below + 1, even = upper % 2 == 0 ? below : above;
      for (const auto& [lower, want] :
           {std::pair{0U, below}, {1U, below}, {0x7fffU, below}, {0x8000U, even}, {0x8001U, above}, {0xffffU, above}})
        wrong += bf16(number(below << 16 | lower)).bits != want;
    }
  CHECK(wrong == 0);
}

TEST_CASE("NaN stays NaN and keeps its sign, whichever bits its fraction has") {
  for (const std::uint32_t nan : {0x7f800001U, 0x7fbfffffU, 0x7fc00000U, 0x7fffffffU, 0xff800001U, 0xffffffffU}) {
    const bf16 x = number(nan);
    CHECK(std::isnan(float{x}));
    CHECK(std::signbit(float{x}) == (nan >> 31 != 0));
  }
  CHECK(std::isinf(float{bf16(std::numeric_limits<float>::infinity())}));
  CHECK(std::isinf(float{bf16(std::numeric_limits<float>::max())}));
}

TEST_CASE("known values convert as expected") {
  CHECK(float{bf16(3.14159265F)} == 3.140625F);
  CHECK(float{bf16(1.0F + 0x1p-8F)} == 1.0F);
  CHECK(float{bf16(1.0F + 0x3p-8F)} == 1.0F + 0x1p-6F);
  CHECK(bits(bf16(-0.0F)) == 0x80000000U);
}

TEST_CASE("every contiguous array of numbers has its address, its size and its type") {
  const std::vector<float> vector(3);
  const std::array<std::int32_t, 4> array{};
  double plain[5]{};
  const std::span<const bf16> span;
  CHECK(number_rows_of(vector).data == vector.data());
  CHECK(number_rows_of(vector).elements == 3);
  CHECK(number_rows_of(vector).type == dtype::float32);
  CHECK(number_rows_of(array).elements == 4);
  CHECK(number_rows_of(array).type == dtype::int32);
  CHECK(number_rows_of(plain).data == plain);
  CHECK(number_rows_of(plain).type == dtype::float64);
  CHECK(number_rows_of(span).elements == 0);
  CHECK(number_rows_of(span).type == dtype::bf16);
}
