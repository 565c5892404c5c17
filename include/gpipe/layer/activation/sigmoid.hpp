#pragma once

#include <cstddef>

#include <gpipe/core/numbers/math.hpp>
#include <gpipe/layer/contract/elements.hpp>
#include <gpipe/layer/contract/pointwise.hpp>

namespace gpipe {

namespace detail {

/// A function whose derivative is known from its value: `Function::value(x)` and `Function::slope(y)`.
template <class Function>
struct function_by_value {
  template <class T>
  GPIPE_HOST_DEVICE static value_and_derivative<T> both(T x) {
    const T y = Function::value(x);
    return {y, Function::slope(y)};
  }
  template <class T>
  struct apply {
    const T* x;
    T* y;
    GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const { y[i] = Function::value(compute_type<T>(x[i])); }
  };
  template <class T>
  struct chain {
    const T *y, *dy;
    T* dx;
    GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const {
      dx[i] = compute_type<T>(dy[i]) * Function::slope(compute_type<T>(y[i]));
    }
  };

  template <class T>
  using kind_for = elements_kernels<function_by_value, T, kept_value::output>;

  template <class In>
  struct on;

  template <floating_tensor In>
  struct on<In> : layer_of_elements<on<In>, kind_for<typename In::value_type>, In, 20, 3, 2> {};
};

}  // namespace detail

/// The logistic function of each element, PyTorch's Sigmoid: y = 1 / (1 + e^-x), dy/dx = y (1 - y). Backward reads the
/// output. A classifier with `binary_cross_entropy` needs none: that loss takes logits.
struct sigmoid_activation : detail::function_by_value<sigmoid_activation> {
  template <class T>
  GPIPE_HOST_DEVICE static T value(T x) {
    return math::sigmoid(x);
  }
  template <class T>
  GPIPE_HOST_DEVICE static T slope(T y) {
    return y * (T(1) - y);
  }
};

/// The hyperbolic tangent of each element, PyTorch's Tanh: dy/dx = 1 - y^2. Backward reads the output.
struct tanh_activation : detail::function_by_value<tanh_activation> {
  template <class T>
  GPIPE_HOST_DEVICE static T value(T x) {
    return math::tanh(x);
  }
  template <class T>
  GPIPE_HOST_DEVICE static T slope(T y) {
    return (T(1) - y) * (T(1) + y);
  }
};

}  // namespace gpipe
