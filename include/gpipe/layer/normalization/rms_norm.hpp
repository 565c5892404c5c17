#pragma once

#include <cstddef>
#include <cstdint>

#include <gpipe/core/numbers/double_bits.hpp>
#include <gpipe/layer/contract/bound.hpp>
#include <gpipe/layer/contract/extents.hpp>
#include <gpipe/layer/normalization/layer_norm.hpp>

namespace gpipe {

/// The setting of a root mean square norm: `rms_norm_with<root_mean_square{.epsilon = 1e-6}>`.
struct root_mean_square {
  double_bits epsilon = 1e-5;
};

/// Division by the root mean square over the last extent, N (Zhang, Sennrich, 2019):
///
///     h = x r,  r = 1 / sqrt(mean of x^2 + epsilon),  y = weight h
///     dx = r (g - h mean of g h),  g = dy weight
///
/// Input and output tensor<T, ..., N>, weight {N}: PyTorch's RMSNorm and LLaMA's. For bf16 it computes in float; r is
/// float.
template <root_mean_square Setting = root_mean_square{}>
struct rms_norm_with {
  static_assert(Setting.epsilon >= 0, "gpipe: root_mean_square{.epsilon} must be at least 0");

  template <class In>
  struct on;

  template <class T, int... Extents>
  requires(sizeof...(Extents) > 0 && detail::is_floating(dtype_of<T>)) struct on<tensor<T, Extents...>>
      : of_kind<on<tensor<T, Extents...>>,
                detail::row_norm_kernels<T, detail::last_extent<tensor<T, Extents...>>, false>> {
    using output = tensor<T, Extents...>;
    static constexpr typename on::numbers sizes{detail::row_sizes_of<output>, Setting.epsilon};

    static constexpr parameter parameters[] = {{"weight", {sizes.width}, initializer::ones()}};
    static constexpr buffer extras[] = {{"inverse", static_cast<std::size_t>(sizes.rows), dtype_of<compute_type<T>>}};
    static constexpr auto elements = static_cast<std::int64_t>(output::size);
    static constexpr work cost{.forward = 4 * elements,
                               .backward_input = 8 * elements,
                               .backward_parameters = 3 * elements,
                               .bytes = static_cast<std::int64_t>(2 * sizeof(T)) * elements};
  };
};

/// With an epsilon of 1e-5.
struct rms_norm : rms_norm_with<> {};

}  // namespace gpipe
