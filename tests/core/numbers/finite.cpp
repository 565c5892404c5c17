#include <gpipe/core/numbers/finite.hpp>

#include <doctest/doctest.h>

#include <initializer_list>
#include <limits>

using gpipe::detail::is_finite;
using gpipe::detail::is_nan;

TEST_CASE_TEMPLATE("a number's bits tell whether it is finite, infinite or NaN", T, float, double) {
  using limits = std::numeric_limits<T>;
  for (const T x : {T{0}, -T{0}, T{1}, limits::denorm_min(), limits::min(), limits::max(), limits::lowest()}) {
    CHECK(is_finite(x));
    CHECK_FALSE(is_nan(x));
  }
  for (const T x : {limits::infinity(), -limits::infinity()}) {
    CHECK_FALSE(is_finite(x));
    CHECK_FALSE(is_nan(x));
  }
  for (const T x : {limits::quiet_NaN(), -limits::quiet_NaN(), limits::signaling_NaN()}) {
    CHECK_FALSE(is_finite(x));
    CHECK(is_nan(x));
  }
  static_assert(is_finite(T{1}) && is_nan(limits::quiet_NaN()));
}
