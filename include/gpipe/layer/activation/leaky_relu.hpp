#pragma once

#include <cstddef>

#include <gpipe/core/numbers/double_bits.hpp>
#include <gpipe/layer/contract/elements.hpp>
#include <gpipe/layer/contract/pointwise.hpp>
#include <gpipe/layer/contract/share.hpp>

namespace gpipe {

namespace detail {

/// The function of a slope.
template <double_bits Slope>
struct leaky_function {
  template <class T>
  static constexpr T slope = static_cast<T>(double{Slope});

  /// For layers that apply the function among other things: `feed_forward<2048, leaky_relu<10>>`.
  template <class T>
  GPIPE_HOST_DEVICE static value_and_derivative<T> both(T x) {
    return {x > T(0) ? x : x * slope<T>, x > T(0) ? T(1) : slope<T>};
  }

  /// The value times 1, or times the slope where `sign` is negative or 0.
  template <class T>
  GPIPE_HOST_DEVICE static compute_type<T> scaled(T sign, T value) {
    using number = compute_type<T>;
    const number x = value;
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
  using kind_for = elements_kernels<leaky_function, T, kept_value::output>;
};

}  // namespace detail

/// y = x if x > 0, else x times the slope: PyTorch's LeakyReLU(0.01) is `leaky_relu<0.01>`, or in thousandths
/// `leaky_relu<10>`, the default. Backward reads the output, which has the input's sign.
template <detail::share<1000> Slope = 10>
struct leaky_relu : detail::leaky_function<Slope.value> {
  static_assert(0 < double{Slope} && double{Slope} < 1,
                "gpipe: leaky_relu<Slope>: Slope must be above 0 and below 1, such as 0.01, or a whole number of "
                "thousandths in 1 ... 999");
  static constexpr detail::short_name shown_name = detail::name_with("leaky_relu", Slope);
  using as_function = detail::leaky_function<Slope.value>;

  template <class In>
  struct on;

  template <detail::floating_tensor In>
  struct on<In> : detail::layer_of_elements<on<In>, typename as_function::template kind_for<typename In::value_type>,
                                            In, 1, 1, 2> {};
};

}  // namespace gpipe
