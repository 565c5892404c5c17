#pragma once

#include <cstddef>

namespace gpipe {

// change: an attention mask
/// One call of scaled dot-product attention. For each sample and head, with rows of `width` elements:
///
///     s_ij = scale q_i . k_j,    p_ij = e^s_ij / sum_j e^s_ij,    o_i = sum_j p_ij v_j
///
/// over the keys j that query i sees: those below the sample's length, and if causal, j <= i + keys - queries, so the
/// last query sees the last key:
///
///                  keys 0 1 2 3 4
///     query 0           x x x . .
///     query 1           x x x x .
///     query 2           x x x x x
///
/// Row r of head h of sample n begins n * sample + h * head + r * row elements after the array's start. Gradients have
/// the strides of their tensors.
struct attention_shape {
  int samples, heads, key_heads;  ///< head h reads key head h / (heads / key_heads); heads % key_heads == 0
  int queries, keys, width;
  bool causal;
  double scale;  ///< above 0
  struct strides {
    std::ptrdiff_t sample, head, row;
  } q, k, v, o;
};

}  // namespace gpipe
