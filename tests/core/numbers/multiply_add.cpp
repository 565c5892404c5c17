// optimize: kernels

#include <gpipe/core/numbers/multiply_add.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

using gpipe::detail::multiply_add;

namespace {

// Not known to the compiler.
template <class T>
T hidden(T x) {
  volatile T kept = x;
  return kept;
}

/// a * b has twice the digits of a number, and c cancels the first half: the rest is 0 after two roundings.
template <class T>
void rounds_as_the_target_does(T a, T b) {
  const T product = hidden(hidden(a) * hidden(b));
  const T left = multiply_add(hidden(a), hidden(b), -product);
  if (GPIPE_HAS_FMA) CHECK(left == std::fma(a, b, -product));
  else CHECK(left == 0);
  if (GPIPE_HAS_FMA) CHECK(left != 0);
}

}  // namespace

TEST_CASE("multiply_add rounds once where the target fuses, else twice") {
  rounds_as_the_target_does(1.0F + 0x1p-23F, 1.0F + 0x3p-23F);
  rounds_as_the_target_does(1.0 + 0x1p-52, 1.0 + 0x3p-52);
  static_assert(multiply_add(2.0F, 3.0F, 1.0F) == 7.0F);
}
