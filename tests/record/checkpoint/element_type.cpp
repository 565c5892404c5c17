#include <gpipe/record/checkpoint/element_type.hpp>

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "support/checkpoints.hpp"

using namespace gpipe;
using detail::half_value;
using detail::nearest;

TEST_CASE("all 65536 halves have their values") {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const int exponent = static_cast<int>(bits >> 10 & 31), fraction = static_cast<int>(bits & 1023);
    const double sign = (bits & 0x8000) != 0 ? -1 : 1;
    const float value = half_value(static_cast<std::uint16_t>(bits));
    if (exponent == 31 && fraction != 0) REQUIRE(std::isnan(value));
    else if (exponent == 31) REQUIRE(value == sign * std::numeric_limits<double>::infinity());
    else
      REQUIRE(value == sign * (exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25)));
    REQUIRE(std::signbit(value) == (sign < 0));
  }
}

TEST_CASE("a double becomes the nearest bf16: it is rounded once") {
  // Every bf16 and its upper neighbour; the middle between both is a tie.
  for (std::uint32_t bits = 0; bits < 0x7f80; ++bits) {
    const auto at = [](std::uint32_t b) { return static_cast<double>(std::bit_cast<float>(b << 16)); };
    const double below = at(bits), above = bits == 0x7f7f ? 0x1p128 : at(bits + 1), middle = (below + above) / 2;
    const std::uint32_t even = (bits & 1) == 0 ? bits : bits + 1;
    for (const double sign : {1.0, -1.0}) {
      const auto rounded = [&](double x) { return nearest<bf16>(sign * x).bits & 0x7fffU; };
      REQUIRE(rounded(below) == bits);
      REQUIRE(rounded(middle) == even);
      REQUIRE(rounded(std::nextafter(middle, 0.0)) == bits);          // a float would be the middle,
      REQUIRE(rounded(std::nextafter(middle, 0x1p200)) == bits + 1);  // and then go to the even one
      REQUIRE((nearest<bf16>(sign * below).bits >= 0x8000) == (sign < 0));
    }
  }
  CHECK(std::isnan(static_cast<float>(nearest<bf16>(std::nan("")))));
  CHECK(nearest<bf16>(1e300).bits == 0x7f80);
  CHECK(nearest<bf16>(-1e300).bits == 0xff80);
  CHECK(nearest<bf16>(1e-300).bits == 0);
}

TEST_CASE("blocks of a file convert, at any alignment") {
  const double from[] = {1, -2.5, 0.1, 1e-40};
  std::byte bytes[1 + sizeof from];
  std::memcpy(bytes + 1, from, sizeof from);
  float floats[4];
  detail::convert(safetensors_type::F64, bytes + 1, 4, floats, "a", "f");
  for (int i = 0; i < 4; ++i) CHECK(floats[i] == static_cast<float>(from[i]));
  bf16 halves[4];
  detail::convert(safetensors_type::F64, bytes + 1, 4, halves, "a", "f");
  CHECK(halves[2].bits == bf16(0.1F).bits);
  double doubles[4];
  detail::convert(safetensors_type::BF16, reinterpret_cast<const std::byte*>(halves), 4, doubles, "a", "f");
  CHECK(doubles[1] == -2.5);
  CHECK(checkpoints::complaint([&] { detail::convert(safetensors_type::I64, bytes, 1, doubles, "a", "f"); }) ==
        "f: tensor \"a\" has elements of I64, which do not convert; store it as F16, BF16, F32 or F64, or read its "
        "bytes");
}
