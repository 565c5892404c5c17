#pragma once

#include <gpipe/core/numbers/math.hpp>
#include <gpipe/core/numbers/multiply_add.hpp>
#include <gpipe/layer/contract/pointwise.hpp>

namespace gpipe {

/// The Gaussian error linear unit in GPT-2's approximation (Hendrycks, Gimpel, 2016, section 2; PyTorch's
/// `approximate="tanh"`), with the tanh written as a logistic function:
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

}  // namespace gpipe
