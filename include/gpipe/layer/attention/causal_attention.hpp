#pragma once

#include <cstddef>
#include <cstdint>

#include <gpipe/layer/contract/bound.hpp>

namespace gpipe {

/// Self-attention in which a token attends to itself and earlier tokens (Vaswani et al., 2017), with four projections:
///
///     [q k v] = x P^T + p,  y = (softmax(q k^T / sqrt(width of a head)) v of every head) O^T + o
///
///     input and output tensor<T, tokens, width>, in_proj_weight {3 width, width}, in_proj_bias {3 width},
///     out_proj_weight {width, width}, out_proj_bias {width}
///
/// Its buffers are those of a kernel that works block by block (Dao et al., "FlashAttention", 2022): its input, q, k
/// and v, the heads' output, and one number per row of the softmax. Backward computes the weights of all pairs of
/// tokens again from these, at the cost of one more product. Operations are counted for the lower triangle. The layer
/// is a description: it has no kernels yet.
template <int Heads>
struct causal_attention {
  template <class In>
  struct on;

  template <class T, int Tokens, int Width>
  requires(detail::is_floating(dtype_of<T>) && Width % Heads == 0) struct on<tensor<T, Tokens, Width>> {
    using output = tensor<T, Tokens, Width>;

    static constexpr parameter parameters[] = {
        {"in_proj_weight", {3 * Width, Width}, initialiser::uniform(Width)},
        {"in_proj_bias", {3 * Width}},
        {"out_proj_weight", {Width, Width}, initialiser::uniform(Width), "out_proj.weight"},
        {"out_proj_bias", {Width}, initialiser::zeros(), "out_proj.bias"}};
    static constexpr buffer extras[] = {{"queries, keys, values", 3 * output::size, dtype_of<T>},
                                        {"heads", output::size, dtype_of<T>},
                                        {"summary", std::size_t{Heads} * Tokens, dtype_of<compute_type<T>>}};
    static constexpr keep keeps{.input = true};

    static constexpr auto elements = static_cast<std::int64_t>(output::size);
    static constexpr std::int64_t projections = 8 * elements * Width;
    static constexpr std::int64_t product = elements * (Tokens + 1);  // for each pair of tokens, over all heads
    static constexpr std::int64_t softmax = std::int64_t{10} * Heads * Tokens * (Tokens + 1);
    static constexpr work cost{.forward = projections + 2 * product + softmax,
                               .backward_input = projections + 5 * product + 2 * softmax,
                               .backward_parameters = projections + 4 * elements,
                               .bytes = static_cast<std::int64_t>(10 * sizeof(T)) * elements};
  };
};

}  // namespace gpipe
