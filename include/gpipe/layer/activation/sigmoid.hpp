#pragma once

#include <gpipe/core/config.hpp>
#include <gpipe/core/numbers/math.hpp>
#include <gpipe/layer/contract/pointwise.hpp>

namespace gpipe {

/// The logistic function of each element, PyTorch's Sigmoid: y = 1 / (1 + e^-x), dy/dx = y (1 - y). Backward reads the
/// output. A classifier with `binary_cross_entropy` needs none: that loss takes logits.
struct sigmoid_activation : detail::pointwise_by_value<sigmoid_activation, 20, 3> {
  template <class T>
  GPIPE_HOST_DEVICE static T value(T x) {
    return math::sigmoid(x);
  }
  template <class T>
  GPIPE_HOST_DEVICE static T gradient(T y, T dy) {
    return dy * (y * (T(1) - y));
  }
};

/// The hyperbolic tangent of each element, PyTorch's Tanh: dy/dx = 1 - y^2. Backward reads the output.
struct tanh_activation : detail::pointwise_by_value<tanh_activation, 20, 3> {
  template <class T>
  GPIPE_HOST_DEVICE static T value(T x) {
    return math::tanh(x);
  }
  template <class T>
  GPIPE_HOST_DEVICE static T gradient(T y, T dy) {
    return dy * ((T(1) - y) * (T(1) + y));
  }
};

}  // namespace gpipe
