#pragma once

#include <gpipe/layer/attention/attention.hpp>

namespace gpipe {

/// Self-attention in which a token attends to itself and to earlier tokens: `attention` with no other setting.
template <int Heads = 0>
struct causal_attention : attention<attention_options{.heads = Heads, .causal = true}> {};

}  // namespace gpipe
