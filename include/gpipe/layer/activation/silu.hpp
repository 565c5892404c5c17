#pragma once

#include <gpipe/core/numbers/math.hpp>
#include <gpipe/core/numbers/multiply_add.hpp>
#include <gpipe/layer/contract/pointwise.hpp>

namespace gpipe {

/// The sigmoid linear unit, also called swish (Hendrycks, Gimpel, 2016; Elfwing, Uchibe, Doya, 2018):
///
///     y = x s(x),  s(x) = 1 / (1 + e^-x),  dy/dx = s + x s (1 - s)
struct silu : pointwise_stored<silu> {
  template <class T>
  GPIPE_HOST_DEVICE static value_and_derivative<T> both(T x) {
    const T s = math::sigmoid(x);
    return {x * s, detail::multiply_add(x * s, T(1) - s, s)};
  }
};

}  // namespace gpipe
