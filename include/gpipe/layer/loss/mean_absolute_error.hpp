#pragma once

#include <gpipe/core/numbers/double_bits.hpp>
#include <gpipe/layer/contract/share.hpp>
#include <gpipe/layer/loss/mean_squared_error.hpp>

namespace gpipe {

namespace detail {

struct absolute_error {
  static constexpr int operations = 3;
  static constexpr gpipe::field field(std::size_t size, dtype type) { return {"targets", size, type}; }
  template <class T>
  GPIPE_HOST_DEVICE static T value(T x, T t) {
    return x < t ? t - x : x - t;
  }
  template <class T>
  GPIPE_HOST_DEVICE static T slope(T x, T t) {
    return static_cast<T>(x > t) - static_cast<T>(x < t);
  }
};

/// For e = x - t: e^2 / 2 if |e| <= Limit, else Limit (|e| - Limit / 2); divided by Limit if `Divided`.
template <double_bits Limit, bool Divided>
struct bent_error {
  static constexpr int operations = 6;
  static constexpr gpipe::field field(std::size_t size, dtype type) { return {"targets", size, type}; }
  template <class T>
  static constexpr T limit = static_cast<T>(double{Limit});
  template <class T>
  static constexpr T factor = Divided ? T(1) / limit<T> : T(1);
  template <class T>
  GPIPE_HOST_DEVICE static T value(T x, T t) {
    const T distance = absolute_error::value(x, t);
    return factor<T> * (distance > limit<T> ? limit<T> * (distance - T(0.5) * limit<T>) : T(0.5) * distance * distance);
  }
  template <class T>
  GPIPE_HOST_DEVICE static T slope(T x, T t) {
    const T e = x - t;
    return factor<T> * (e > limit<T> ? limit<T> : e < -limit<T> ? -limit<T> : e);
  }
};

}  // namespace detail

/// The mean absolute error of a regression, over the N elements of a sample. Outliers have less weight than in
/// `mean_squared_error`; sign(0) is 0:
///
///     loss = weight (1/N) sum_j |x_j - target_j|,    d loss / d x_j = weight (1/N) sign(x_j - target_j)
///
/// The mean over samples is PyTorch's L1Loss. The fields are as in `mean_squared_error`. There is no accuracy.
struct mean_absolute_error : detail::elementwise_loss<detail::absolute_error> {};

/// The Huber loss (Huber, 1964), over the N elements of a sample: squared near 0, and absolute beyond `Delta`, a number
/// above 0 such as 1.5:
///
///     loss = weight (1/N) sum_j h(x_j - target_j),    h(e) = e^2 / 2  if |e| <= Delta,  else  Delta (|e| - Delta / 2)
///     d loss / d x_j = weight (1/N) (x_j - target_j), clamped to [-Delta, Delta]
///
/// The mean over samples is PyTorch's HuberLoss(delta). The fields are as in `mean_squared_error`. There is no
/// accuracy.
template <detail::share<1> Delta = 1>
struct huber_loss : detail::elementwise_loss<detail::bent_error<Delta.value, false>> {
  static_assert(double{Delta} > 0, "gpipe: huber_loss<Delta>: Delta must be above 0");
  static constexpr detail::short_name shown_name = detail::name_with("huber_loss", Delta);
};

/// The Huber loss divided by its limit: h(e) = e^2 / (2 Beta) if |e| <= Beta, else |e| - Beta / 2. The mean over
/// samples is PyTorch's SmoothL1Loss(beta). The fields are as in `mean_squared_error`. There is no accuracy.
template <detail::share<1> Beta = 1>
struct smooth_l1_loss : detail::elementwise_loss<detail::bent_error<Beta.value, true>> {
  static_assert(double{Beta} > 0, "gpipe: smooth_l1_loss<Beta>: Beta must be above 0");
  static constexpr detail::short_name shown_name = detail::name_with("smooth_l1_loss", Beta);
};

}  // namespace gpipe
