#pragma once

#include <cstddef>
#include <cstdint>

#include <gpipe/layer/contract/bound.hpp>
#include <gpipe/layer/contract/extents.hpp>

namespace gpipe {

/// The two linear layers of a Transformer block, with GELU between them, on the last extent:
///
///     y = gelu(x A^T + a) B^T + b
///
///     input and output tensor<T, ..., width>, linear1_weight {Hidden, width}, linear1_bias {Hidden},
///     linear2_weight {width, Hidden}, linear2_bias {width}
///
/// Backward reads the input and the output of GELU. The layer is a description: it has no kernels yet. `linear`, `gelu`
/// and `linear` are the same layer with kernels.
template <int Hidden>
struct feed_forward {
  template <class In>
  struct on;

  template <class T, int... Extents>
  requires(sizeof...(Extents) > 0 && detail::is_floating(dtype_of<T>)) struct on<tensor<T, Extents...>> {
    using output = tensor<T, Extents...>;
    static constexpr int width = detail::last_extent<output>, rows = detail::rows_in<output>;
    static constexpr std::size_t hidden = std::size_t{rows} * Hidden;

    static constexpr parameter parameters[] = {
        {"linear1_weight", {Hidden, width}, initialiser::uniform(width), "linear1.weight"},
        {"linear1_bias", {Hidden}, initialiser::uniform(width), "linear1.bias"},
        {"linear2_weight", {width, Hidden}, initialiser::uniform(Hidden), "linear2.weight"},
        {"linear2_bias", {width}, initialiser::uniform(Hidden), "linear2.bias"}};
    static constexpr buffer extras[] = {{"before gelu", hidden, dtype_of<T>}, {"after gelu", hidden, dtype_of<T>}};
    static constexpr keep keeps{.input = true};

    static constexpr auto elements = static_cast<std::int64_t>(hidden);
    static constexpr std::int64_t products = 4 * elements * width;
    static constexpr work cost{.forward = products + 20 * elements,
                               .backward_input = products + 20 * elements,
                               .backward_parameters = products + elements + rows * width,
                               .bytes = static_cast<std::int64_t>(sizeof(T)) * (2 * rows * width + 3 * elements)};
  };
};

}  // namespace gpipe
