#pragma once

#include <cstddef>

#include <gpipe/core/config.hpp>

namespace gpipe {

/// Samples of shape `N...`, one after the other, indexed as an array. A view owns no memory and can be copied into a
/// kernel's functor.
///
///     view<const float, 128, 64> x{a.in()};
///     x(sample, token, feature)
template <class T, int... N>
struct view {
  T* data = nullptr;

  template <class... Index>
  GPIPE_HOST_DEVICE constexpr T& operator()(std::ptrdiff_t sample, Index... index) const {
    static_assert(sizeof...(Index) == sizeof...(N), "gpipe: a view needs the sample and one index per extent");
    std::ptrdiff_t offset = sample;
    ((offset = offset * N + static_cast<std::ptrdiff_t>(index)), ...);
    return data[offset];
  }
};

}  // namespace gpipe
