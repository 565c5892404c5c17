#pragma once

#include <cstdint>

#include <gpipe/layer/attention/causal_attention.hpp>
#include <gpipe/layer/attention/embedding.hpp>
#include <gpipe/layer/attention/token_head.hpp>
#include <gpipe/layer/linear/feed_forward.hpp>
#include <gpipe/layer/normalization/layer_norm.hpp>
#include <gpipe/model/model.hpp>

namespace gpipe {

/// One pre-norm block of a Transformer: 12 d^2 + 13 d parameters at width d, with Hidden = 4 d.
template <int Heads, int Hidden>
struct transformer_block
    : sequence<residual<layer_norm, causal_attention<Heads>>, residual<layer_norm, feed_forward<Hidden>>> {};

/// The decoder-only Transformer of Huang et al., "GPipe", 2019, table 1; the paper calls a block a layer. It has no
/// positional table and no layer norm after the last block: (12 d^2 + 13 d) L + 2 V d + V parameters.
template <int Blocks, int Tokens = 1024, int Width = 2048, int Hidden = 8192, int Heads = 32, int Vocabulary = 32'000>
struct transformer : model<input<std::int32_t, Tokens>, embedding<Vocabulary, Width>,
                           repeat<Blocks, transformer_block<Heads, Hidden>>, token_head<Vocabulary>> {};

}  // namespace gpipe
