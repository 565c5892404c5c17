#pragma once

#include <cstddef>

#include <gpipe/core/numbers/double_bits.hpp>

namespace gpipe {

/// The setting of a normalization by mean and variance: `layer_norm_with<mean_and_variance{.epsilon = 1e-6}>`,
/// `group_norm_with<8, mean_and_variance{.epsilon = 1e-6}>`.
struct mean_and_variance {
  double_bits epsilon = 1e-5;
};

namespace detail {

/// Adds the sums over rows of f(row, j) to weight[j], and of g(row, j) to bias[j]: by one kernel if the context has
/// one.
template <class C, class F, class G, class T>
void add_scale_gradients(const C& c, std::ptrdiff_t rows, std::ptrdiff_t n, const F& f, T* weight, const G& g,
                         T* bias) {
  if constexpr (requires { c.columns(rows, n, f, weight, g, bias); }) {
    c.columns(rows, n, f, weight, g, bias);
  } else {
    c.columns(rows, n, f, weight);
    c.columns(rows, n, g, bias);
  }
}

}  // namespace detail

}  // namespace gpipe
