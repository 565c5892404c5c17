#pragma once

#include <gpipe/core/numbers/math.hpp>
#include <gpipe/core/numbers/multiply_add.hpp>
#include <gpipe/layer/loss/mean_squared_error.hpp>

namespace gpipe {

namespace detail {

struct logistic_error {
  static constexpr int operations = 20;
  static constexpr gpipe::field field(std::size_t size, dtype type) { return {"labels", size, type, 1}; }
  // -t log s(x) - (1 - t) log(1 - s(x)) with s the logistic function; e^-|x| does not overflow.
  template <class T>
  GPIPE_HOST_DEVICE static T value(T x, T t) {
    const T size = x < T(0) ? -x : x;
    return multiply_add(-x, t, x > T(0) ? x : T(0)) + math::log1p_of_share(math::exp(-size));
  }
  template <class T>
  GPIPE_HOST_DEVICE static T slope(T x, T t) {
    return math::sigmoid(x) - t;
  }
  template <class T>
  GPIPE_HOST_DEVICE static bool hit(T x, T t) {
    return (x > T(0)) == (t > T(0.5));
  }
};

}  // namespace detail

/// The binary cross-entropy of N independent yes-or-no answers, from logits (before a sigmoid), with the labels y:
///
///     loss = weight (1/N) sum_j (max(x_j, 0) - x_j y_j + log(1 + e^-|x_j|))
///     d loss / d x_j = weight (1/N) (1 / (1 + e^-x_j) - y_j)
///
/// The mean over samples is PyTorch's BCEWithLogitsLoss. The field "labels" has the shape of the input and type T
/// (float for bf16), each in [0, 1]: a probability is allowed. The field "weights" has one number per sample and is by
/// default all ones. "correct" is the share of the N answers that are right: x > 0 where the label is above 1/2.
struct binary_cross_entropy : detail::elementwise_loss<detail::logistic_error> {};

}  // namespace gpipe
