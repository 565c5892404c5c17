#pragma once

#include <cstddef>
#include <type_traits>

#include <gpipe/core/config.hpp>
#include <gpipe/core/tensors/array_function.hpp>
#include <gpipe/core/tensors/dtype.hpp>

namespace gpipe::detail {

/// The array to which a norm's backward adds the gradient of its input, or null: then the executor adds it, by a
/// separate kernel. Only numbers that are rounded between the two have the same bits either way, because no
/// multiplication is fused with the addition.
template <class T, class A>
T* gradient_sum_of(const A& a) {
  if constexpr (std::is_same_v<T, compute_type<T>>) return nullptr;
  else return a.gradient_sum();
}

/// dx[i] = gradient(i, dy, weight, x) for a row, and sum[i] += dx[i] if there is a sum; T rounds both.
template <class T, class Team, class F>
GPIPE_HOST_DEVICE void write_gradient(const Team& team, std::ptrdiff_t n, const F& gradient, T* dx, T* sum, const T* dy,
                                      const compute_type<T>* weight, const T* x) {
  if constexpr (!std::is_same_v<T, compute_type<T>>) {
    if (sum != nullptr) {
      const auto write_and_add = [gradient](std::ptrdiff_t i, auto result, auto total, auto slopes, auto scale,
                                            auto input, auto before) {
        const T rounded(gradient(i, slopes, scale, input));
        result[i] = rounded;
        total[i] = before[i] + compute_type<T>(rounded);
      };
      const T* const before = sum;
      return team.each(n, array_function{write_and_add, dx, sum, dy, weight, x, before});
    }
  }
  const auto write = [gradient](std::ptrdiff_t i, auto result, auto slopes, auto scale, auto input) {
    result[i] = gradient(i, slopes, scale, input);
  };
  team.each(n, array_function{write, dx, dy, weight, x});
}

}  // namespace gpipe::detail
