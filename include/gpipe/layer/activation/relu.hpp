#pragma once

#include <cstddef>

#include <gpipe/layer/contract/elements.hpp>
#include <gpipe/layer/contract/pointwise.hpp>

namespace gpipe {

/// y = max(x, 0); NaN stays NaN; the derivative at 0 is 0. Backward reads the output, which the next layer usually
/// keeps, too.
struct relu {
  /// For layers that apply the function among other things: `feed_forward<2048, relu>`.
  template <class T>
  GPIPE_HOST_DEVICE static value_and_derivative<T> both(T x) {
    return {x < T(0) ? T(0) : x, x > T(0) ? T(1) : T(0)};
  }

  template <class T>
  struct apply {
    const T* x;
    T* y;
    GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const {
      const compute_type<T> value = x[i];
      y[i] = value < compute_type<T>(0) ? compute_type<T>(0) : value;
    }
  };
  template <class T>
  struct chain {
    const T *y, *dy;
    T* dx;
    GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const {
      const compute_type<T> gradient = dy[i];
      dx[i] = y[i] > compute_type<T>(0) ? gradient : compute_type<T>(0);
    }
  };

  template <class T>
  using kind_for = detail::elements_kernels<relu, T, detail::kept_value::output>;

  template <class In>
  struct on;

  template <detail::floating_tensor In>
  struct on<In> : detail::layer_of_elements<on<In>, kind_for<typename In::value_type>, In, 1, 1, 2> {};
};

}  // namespace gpipe
