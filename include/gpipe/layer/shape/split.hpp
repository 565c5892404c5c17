#pragma once

#include <cstdint>

#include <gpipe/layer/contract/bound.hpp>
#include <gpipe/layer/shape/concat.hpp>

namespace gpipe {

/// Cuts the last extent into parts, the tensors of its output: `split<32, 32>, multiply` gates one half by the other.
/// The parts' sizes must add up to the extent.
///
///     tensor<float, 8, 64>:  split<16, 48> gives tensor<float, 8, 16> and tensor<float, 8, 48>
template <int... Sizes>
struct split {
  static_assert(sizeof...(Sizes) >= 2 && ((Sizes > 0) && ...),
                "gpipe: split<Sizes...> needs two or more sizes of at least 1");

  template <class In>
  struct on;

  template <class T, int... Extents>
  requires(sizeof...(Extents) > 0 && detail::is_floating(dtype_of<T>) &&
           detail::row_width<tensor<T, Extents...>>(static_cast<int>(sizeof...(Extents)) - 1) ==
               (Sizes + ... + 0)) struct on<tensor<T, Extents...>>
      : of_kind<on<tensor<T, Extents...>>, detail::cut_kernels<T, static_cast<int>(sizeof...(Sizes))>> {
    using whole = tensor<T, Extents...>;
    using output = bundle<detail::with_extent<whole, whole::rank - 1, Sizes>...>;
    static constexpr auto elements = static_cast<std::int64_t>(whole::size);
    static constexpr typename on::numbers sizes{elements / (Sizes + ...), {Sizes...}};
    static constexpr work cost{.bytes = static_cast<std::int64_t>(2 * sizeof(T)) * elements};
  };
};

}  // namespace gpipe
