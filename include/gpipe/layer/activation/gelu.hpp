#pragma once

#include <gpipe/core/numbers/math.hpp>
#include <gpipe/core/numbers/multiply_add.hpp>
#include <gpipe/layer/contract/pointwise.hpp>

namespace gpipe {

/// The Gaussian error linear unit in GPT-2's approximation (Hendrycks, Gimpel, 2016, section 2): PyTorch's
/// `GELU(approximate="tanh")`, and not its default, `GELU()`, which is `exact_gelu`. The two differ by up to 5e-4, so
/// weights that were trained with one give other outputs with the other. The tanh is written as a logistic function:
///
///     y = x / 2 (1 + tanh u) = x s(2u),   u = sqrt(2 / pi) (x + 0.044715 x^3),   dy/dx = s + 2 x s (1 - s) du/dx
struct gelu : pointwise_stored<gelu> {
  template <class T>
  GPIPE_HOST_DEVICE static value_and_derivative<T> both(T x) {
    constexpr T linear = T(1.5957691216057307), cubic = T(0.044715 * 1.5957691216057307);
    // Beyond 32 the logistic function is 0 or 1, in double too. The bound keeps powers of x from overflowing.
    const T z = math::bounded(x, T(32)), square = z * z;
    const T s = math::sigmoid(z * detail::multiply_add(cubic, square, linear));
    const T du = detail::multiply_add(T(3) * cubic, square, linear);
    return {x * s, detail::multiply_add(z * s * (T(1) - s), du, s)};
  }
};

/// The Gaussian error linear unit itself: PyTorch's `GELU()`, and BERT's. `gelu` approximates it.
///
///     y = x F(x),   F(x) = (1 + erf(x / sqrt(2))) / 2,   dy/dx = F(x) + x f(x),   f(x) = e^(-x^2 / 2) / sqrt(2 pi)
struct exact_gelu : pointwise_stored<exact_gelu> {
  template <class T>
  GPIPE_HOST_DEVICE static value_and_derivative<T> both(T x) {
    constexpr T root = T(0.7071067811865476), peak = T(0.3989422804014327);
    const T share = detail::multiply_add(T(0.5), math::erf(x * root), T(0.5));
    // Beyond 40 the density is 0, in double too. The bound keeps x^2 from overflowing.
    const T z = math::bounded(x, T(40));
    return {x * share, detail::multiply_add(z, peak * math::exp(T(-0.5) * z * z), share)};
  }
};

}  // namespace gpipe
