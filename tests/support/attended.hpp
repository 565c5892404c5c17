#pragma once

// A small network with attention, and its data.

#include <cstdint>
#include <vector>

#include <gpipe/layer/attention/attention.hpp>
#include <gpipe/layer/attention/cross_attention.hpp>

#include "support/nets.hpp"

namespace laws {

/// 11 layers, two blocks: tokens attend to earlier ones and to those of a skip, which have lengths. The first attention
/// reads the model's input, which has no gradient.
template <class T>
struct attended_net
    : model<input<T, 4, 3>, gpipe::attention<attention_options{.head_width = 2, .rotary = 100}>, linear<4>,
            stash<"memory">,
            repeat<2, residual<layer_norm, gpipe::attention<attention_options{
                                               .heads = 2, .causal = true, .bias = false, .padded = true}>>>,
            pop<"memory">,
            cross_attention<attention_options{.heads = 2, .key_heads = 1, .head_width = 4, .padded = true}>, linear<7>,
            softmax_cross_entropy> {};

/// Samples with the number of tokens that count in each.
template <class T>
struct token_samples : samples<T> {
  std::vector<std::int32_t> lengths;

  explicit token_samples(int n) : samples<T>(n, 12, 4), lengths(static_cast<std::size_t>(n)) {
    for (std::size_t i = 0; i < lengths.size(); ++i) lengths[i] = static_cast<std::int32_t>(2.5 * (1 + noise(4, i)));
  }
  batch take(int first, int n) const {
    batch b = samples<T>::take(first, n);
    b.with("lengths", std::span(lengths).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(n)));
    return b;
  }
  batch all() const { return take(0, this->count); }
};

}  // namespace laws
