#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include <gpipe/layer/attention/attention_options.hpp>
#include <gpipe/layer/attention/projections.hpp>
#include <gpipe/layer/contract/attention_shape.hpp>
#include <gpipe/layer/contract/description.hpp>
#include <gpipe/layer/contract/row_parts.hpp>
#include <gpipe/layer/linear/weight_product.hpp>

namespace gpipe::detail {

/// The common part of the kernels of self-attention and of cross-attention. `Kernels` has
///
///     is_differentiated(a)    whether backward's input part runs
///     differentiate(c, a)     overwrites q, k and v with their gradients
///     projections_of(a)       the gradients of all projections' parameters
template <class Kernels, class T, bool Padded>
struct attention_base {
  static constexpr keep keeps{.input = true};

  template <class C, class A>
  static void backward_parameters(const C& c, const A& a) {
    if (!Kernels::is_differentiated(a)) Kernels::differentiate(c, a);
    add_gradients(c, a.samples(), Kernels::projections_of(a));
  }
  template <class C, class A>
  requires multiplies_parts<C, T>
  static void backward_parameters(const C& c, const A& calls, int micro_batches) {
    decltype(Kernels::projections_of(calls[0])) projections[std::size_t{max_gradient_group}];
    for (int m = 0; m < micro_batches; ++m) {
      if (!Kernels::is_differentiated(calls[m])) Kernels::differentiate(c, calls[m]);
      projections[m] = Kernels::projections_of(calls[m]);
    }
    add_gradients(c, calls[0].samples(), calls[micro_batches - 1].samples(), micro_batches, projections);
  }

  template <class A>
  static const std::int32_t* lengths(const A& a) {
    if constexpr (Padded) return a.template field<0, std::int32_t>();
    else return nullptr;
  }
};

// change: an attention mask
/// The shape of an attention whose keys and values have the same strides.
inline attention_shape shape_of_attention(int samples, const attention_extents& heads, int queries, int keys,
                                          bool causal, const attention_shape::strides& q,
                                          const attention_shape::strides& kv, const attention_shape::strides& o) {
  const double scale = 1 / std::sqrt(static_cast<double>(heads.width));
  return {samples, heads.heads, heads.key_heads, queries, keys, heads.width, causal, scale, q, kv, kv, o};
}

/// `projections`: the operations of all products with weights; `sums`: the operations of their biases' gradients;
/// `elements`: the numbers that forward moves.
template <class T, attention_options Options>
constexpr work cost_of_attention(const attention_extents& heads, int queries, int keys, std::int64_t projections,
                                 std::int64_t sums, std::int64_t elements) {
  const std::int64_t pairs = attended_pairs(Options.causal, queries, keys);
  const std::int64_t product = 2 * pairs * heads.queries(), softmax = 20 * pairs * heads.heads;
  const std::int64_t forward = 2 * product + softmax, backward = 5 * product + 2 * softmax;
  return {.forward = projections + forward,
          .backward_input = projections + backward,
          .backward_parameters = projections + sums,
          .bytes = static_cast<std::int64_t>(sizeof(T)) * elements,
          .kind = work_kind::product,
          .attention = forward,
          .attention_backward = backward};
}

}  // namespace gpipe::detail
