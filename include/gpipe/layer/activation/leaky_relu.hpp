#pragma once

#include <gpipe/core/config.hpp>
#include <gpipe/core/numbers/double_bits.hpp>
#include <gpipe/layer/contract/pointwise.hpp>
#include <gpipe/layer/contract/share.hpp>

namespace gpipe {

namespace detail {

/// The function of a slope.
template <double_bits Slope>
struct leaky_function : pointwise_by_value<leaky_function<Slope>, 1, 1> {
  template <class T>
  GPIPE_HOST_DEVICE static T value(T x) {
    return gradient(x, x);
  }
  template <class T>
  GPIPE_HOST_DEVICE static T gradient(T y, T dy) {
    constexpr T slope = static_cast<T>(double{Slope});
    return y > T(0) ? dy : dy * slope;
  }
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
};

}  // namespace gpipe
