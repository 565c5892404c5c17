#pragma once

#include <cstddef>

#include <gpipe/layer/contract/elements.hpp>
#include <gpipe/layer/contract/pointwise.hpp>

namespace gpipe {

/// y = x if x > 0, else x PerMille / 1000: PyTorch's LeakyReLU, whose slope of 0.01 is `leaky_relu<10>`, the default.
/// Backward reads the output, which has the input's sign.
template <int PerMille = 10>
struct leaky_relu {
  static_assert(0 < PerMille && PerMille < 1000, "gpipe: leaky_relu<PerMille>: PerMille must be in 1 ... 999");

  template <class T>
  static constexpr T slope = T(PerMille) / T(1000);

  /// For layers that apply the function among other things: `feed_forward<2048, leaky_relu<10>>`.
  template <class T>
  GPIPE_HOST_DEVICE static value_and_derivative<T> both(T x) {
    return {x > T(0) ? x : x * slope<T>, x > T(0) ? T(1) : slope<T>};
  }

  /// A number times 1, or times the slope where the sign is that of a negative number or of 0.
  template <class T>
  GPIPE_HOST_DEVICE static compute_type<T> scaled(T sign, T from) {
    using number = compute_type<T>;
    const number x = from;
    return sign > number(0) ? x : x * slope<number>;
  }
  template <class T>
  struct apply {
    const T* x;
    T* y;
    GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const { y[i] = scaled(x[i], x[i]); }
  };
  template <class T>
  struct chain {
    const T *y, *dy;
    T* dx;
    GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const { dx[i] = scaled(y[i], dy[i]); }
  };

  template <class T>
  using kind_for = detail::elements_kernels<leaky_relu, T, detail::kept_value::output>;

  template <class In>
  struct on;

  template <detail::floating_tensor In>
  struct on<In> : detail::layer_of_elements<on<In>, kind_for<typename In::value_type>, In, 1, 1, 2> {};
};

}  // namespace gpipe
