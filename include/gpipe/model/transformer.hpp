#pragma once

#include <cstdint>

#include <gpipe/layer/attention/causal_attention.hpp>
#include <gpipe/layer/attention/embedding.hpp>
#include <gpipe/layer/attention/token_head.hpp>
#include <gpipe/layer/linear/feed_forward.hpp>
#include <gpipe/layer/normalization/layer_norm.hpp>
#include <gpipe/model/model.hpp>
#include <gpipe/model/structure/sliced_head.hpp>

namespace gpipe {

/// One pre-norm block of a Transformer: 12 d^2 + 13 d parameters at width d, with Hidden = 4 d.
template <int Heads, int Hidden>
struct transformer_block
    : sequence<residual<layer_norm, causal_attention<Heads>>, residual<layer_norm, feed_forward<Hidden>>> {};

/// Options of `transformer_with`, with the sizes of Huang et al., "GPipe", 2019.
struct transformer_options {
  int tokens = 1024;
  int width = 2048;
  int hidden = 8192;  ///< of a feed-forward layer
  int heads = 32;
  int vocabulary = 32'000;
  int head_slices = 1;  ///< slices of the head, each a separate layer
};

/// The decoder-only Transformer of Huang et al., "GPipe", 2019, table 1, with its sizes by name; the paper calls a
/// block a layer. It has no positional table and no layer norm after the last block: (12 d^2 + 13 d) L + 2 V d + V
/// parameters.
///
///     transformer_with<24, transformer_options{.tokens = 512, .head_slices = 8}>
template <int Blocks, transformer_options O = transformer_options{}>
struct transformer_with
    : model<input<std::int32_t, O.tokens>, embedding<O.vocabulary, O.width>,
            repeat<Blocks, transformer_block<O.heads, O.hidden>>, token_head<O.vocabulary, slices<O.head_slices>>> {};

/// The same with sizes by their order.
template <int Blocks, int Tokens = 1024, int Width = 2048, int Hidden = 8192, int Heads = 32, int Vocabulary = 32'000>
struct transformer
    : transformer_with<
          Blocks, transformer_options{
                      .tokens = Tokens, .width = Width, .hidden = Hidden, .heads = Heads, .vocabulary = Vocabulary}> {};

}  // namespace gpipe
