#pragma once

#include <gpipe/layer/loss/elementwise_loss.hpp>

namespace gpipe {

namespace detail {

struct squared_error {
  static constexpr int operations = 4;
  static constexpr gpipe::field field(std::size_t size, dtype type) { return {"targets", size, type}; }
  template <class T>
  GPIPE_HOST_DEVICE static T value(T x, T t) {
    return (x - t) * (x - t);
  }
  template <class T>
  GPIPE_HOST_DEVICE static T slope(T x, T t) {
    return T(2) * (x - t);
  }
};

}  // namespace detail

/// The mean squared error of a regression, over the N elements of a sample:
///
///     loss = weight (1/N) sum_j (x_j - target_j)^2,    d loss / d x_j = weight (2/N) (x_j - target_j)
///
/// The mean over samples is PyTorch's MSELoss. The field "targets" has the shape of the input and type T (float for
/// bf16); the field "weights" has one number per sample and is by default all ones. There is no accuracy.
struct mean_squared_error : detail::elementwise_loss<detail::squared_error> {};

}  // namespace gpipe
