#pragma once

#include <concepts>
#include <type_traits>

#include <gpipe/core/config.hpp>
#include <gpipe/core/numbers/math.hpp>

namespace gpipe::math {

/// A number with the derivative of the computation so far: a + a' e with e^2 = 0. A function that is evaluated at
/// {x, 1} returns its value and its derivative at x, by the rules below; no formula for the derivative is written.
///
///     (a + a'e)(b + b'e) = ab + (a'b + ab')e        f(a + a'e) = f(a) + f'(a) a' e
///
/// Comparisons look at values. At the kink of `abs`, `max` and `min` the derivative is the mean of both sides, as in
/// PyTorch: 0 for abs(x) at 0, and 1/2 for max(x, 0) at 0.
template <std::floating_point T>
struct dual {
  T value{}, derivative{};

  constexpr dual() = default;
  GPIPE_HOST_DEVICE constexpr dual(T x, T slope) : value(x), derivative(slope) {}
  /// A constant. Literals of every type of number become a T.
  template <class Number>
  requires std::is_arithmetic_v<Number> GPIPE_HOST_DEVICE constexpr dual(Number constant)
      : value(static_cast<T>(constant)) {}

  // Friends, so that constants convert on both sides.
  GPIPE_HOST_DEVICE friend constexpr dual operator+(dual a) { return a; }
  GPIPE_HOST_DEVICE friend constexpr dual operator-(dual a) { return {-a.value, -a.derivative}; }
  GPIPE_HOST_DEVICE friend constexpr dual operator+(dual a, dual b) {
    return {a.value + b.value, a.derivative + b.derivative};
  }
  GPIPE_HOST_DEVICE friend constexpr dual operator-(dual a, dual b) {
    return {a.value - b.value, a.derivative - b.derivative};
  }
  GPIPE_HOST_DEVICE friend constexpr dual operator*(dual a, dual b) {
    return {a.value * b.value, multiply_add(a.derivative, b.value, a.value * b.derivative)};
  }
  GPIPE_HOST_DEVICE friend constexpr dual operator/(dual a, dual b) {
    const T ratio = a.value / b.value;
    return {ratio, multiply_add(-ratio, b.derivative, a.derivative) / b.value};
  }
  GPIPE_HOST_DEVICE constexpr dual& operator+=(dual b) { return *this = *this + b; }
  GPIPE_HOST_DEVICE constexpr dual& operator-=(dual b) { return *this = *this - b; }
  GPIPE_HOST_DEVICE constexpr dual& operator*=(dual b) { return *this = *this * b; }
  GPIPE_HOST_DEVICE constexpr dual& operator/=(dual b) { return *this = *this / b; }

  GPIPE_HOST_DEVICE friend constexpr bool operator<(dual a, dual b) { return a.value < b.value; }
  GPIPE_HOST_DEVICE friend constexpr bool operator>(dual a, dual b) { return a.value > b.value; }
  GPIPE_HOST_DEVICE friend constexpr bool operator<=(dual a, dual b) { return a.value <= b.value; }
  GPIPE_HOST_DEVICE friend constexpr bool operator>=(dual a, dual b) { return a.value >= b.value; }
  GPIPE_HOST_DEVICE friend constexpr bool operator==(dual a, dual b) { return a.value == b.value; }
};

template <class T>
GPIPE_HOST_DEVICE constexpr dual<T> abs(dual<T> x) {
  return x.value < 0 ? -x : x.value > 0 ? x : dual<T>{x.value * x.value, x.value * x.value};  // 0, or NaN
}
template <class T>
GPIPE_HOST_DEVICE dual<T> exp(dual<T> x) {
  const T y = exp(x.value);
  return {y, y * x.derivative};
}
template <class T>
GPIPE_HOST_DEVICE dual<T> log(dual<T> x) {
  return {log(x.value), x.derivative / x.value};
}
template <class T>
GPIPE_HOST_DEVICE dual<T> tanh(dual<T> x) {
  const T y = tanh(x.value);
  return {y, multiply_add(-y, y, T(1)) * x.derivative};
}
template <class T>
GPIPE_HOST_DEVICE dual<T> erf(dual<T> x) {
  return {erf(x.value), T(1.1283791670955126) * exp(-x.value * x.value) * x.derivative};  // 2 / sqrt(pi)
}
template <class T>
GPIPE_HOST_DEVICE dual<T> sqrt(dual<T> x) {
  const T y = sqrt(x.value);
  return {y, x.derivative / (2 * y)};
}
template <class T>
GPIPE_HOST_DEVICE dual<T> sin(dual<T> x) {
  return {sin(x.value), cos(x.value) * x.derivative};
}
template <class T>
GPIPE_HOST_DEVICE dual<T> cos(dual<T> x) {
  return {cos(x.value), -sin(x.value) * x.derivative};
}

namespace detail {

template <class A, class B>
struct dual_pair {};
template <class T, class B>
struct dual_pair<dual<T>, B> {
  using type = dual<T>;
};
template <class A, class T>
struct dual_pair<A, dual<T>> {
  using type = dual<T>;
};
template <class T>
struct dual_pair<dual<T>, dual<T>> {
  using type = dual<T>;
};
/// The dual number among two arguments; the other one may be a constant: max(x, 0), pow(x, 3).
template <class A, class B>
using dual_of = typename dual_pair<A, B>::type;

}  // namespace detail

template <class A, class B, class D = detail::dual_of<A, B>>
GPIPE_HOST_DEVICE constexpr D(max)(A x, B y) {
  const D a = x, b = y;
  if (a.value == b.value) return {a.value, (a.derivative + b.derivative) / 2};
  return a.value > b.value || a.value != a.value ? a : b;  // NaN stays NaN
}
template <class A, class B, class D = detail::dual_of<A, B>>
GPIPE_HOST_DEVICE constexpr D(min)(A x, B y) {
  return -(max)(-D(x), -D(y));
}
template <class A, class B, class D = detail::dual_of<A, B>>
GPIPE_HOST_DEVICE D pow(A x, B y) {
  const D a = x, b = y;
  const auto power = pow(a.value, b.value);
  const D constant = 0;
  auto slope = b.value == 0 ? constant.value : b.value * pow(a.value, b.value - 1) * a.derivative;
  // a constant power may have a base below 0
  if (b.derivative != 0) slope = multiply_add(power * log(a.value), b.derivative, slope);
  return {power, slope};
}

}  // namespace gpipe::math
