#pragma once

#include <gpipe/core/config.hpp>
#include <gpipe/layer/contract/pointwise.hpp>

namespace gpipe {

/// y = max(x, 0); NaN stays NaN; the derivative at 0 is 0. Backward reads the output, which the next layer usually
/// keeps, too.
struct relu : detail::pointwise_by_value<relu, 1, 1> {
  template <class T>
  GPIPE_HOST_DEVICE static T value(T x) {
    return x < T(0) ? T(0) : x;
  }
  template <class T>
  GPIPE_HOST_DEVICE static T gradient(T y, T dy) {
    return y > T(0) ? dy : T(0);
  }
};

}  // namespace gpipe
