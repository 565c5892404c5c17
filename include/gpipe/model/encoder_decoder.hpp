#pragma once

#include <cstdint>

#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/attention/attention.hpp>
#include <gpipe/layer/attention/cross_attention.hpp>
#include <gpipe/layer/attention/embedding.hpp>
#include <gpipe/layer/attention/positions.hpp>
#include <gpipe/layer/attention/token_head.hpp>
#include <gpipe/layer/linear/feed_forward.hpp>
#include <gpipe/layer/normalization/layer_norm.hpp>
#include <gpipe/model/model.hpp>

namespace gpipe {

namespace detail {

/// Attention of `encoder_decoder`. The field "lengths" counts the words of each source; the rest is padding.
template <int Heads, int HeadWidth>
inline constexpr attention_options to_source{.heads = Heads, .head_width = HeadWidth, .padded = true};
template <int Heads, int HeadWidth>
inline constexpr attention_options to_earlier{.heads = Heads, .head_width = HeadWidth, .causal = true};

}  // namespace detail

template <int Heads, int HeadWidth, int Hidden>
struct encoder_layer : sequence<residual<layer_norm, attention<detail::to_source<Heads, HeadWidth>>>,
                                residual<layer_norm, feed_forward<Hidden, relu>>> {};

template <int Heads, int HeadWidth, int Hidden>
struct decoder_layer
    : sequence<residual<layer_norm, attention<detail::to_earlier<Heads, HeadWidth>>>,
               residual<layer_norm, pop<"memory">, cross_attention<detail::to_source<Heads, HeadWidth>>>,
               residual<layer_norm, feed_forward<Hidden, relu>>> {};

/// The Transformer for translation of Huang et al., "GPipe", 2019, section 5: T(L, H, A) is `encoder_decoder<L, H, A>`.
/// Layers have their norm first, as in Lingvo. Source and target have one table of words, and the last layer another.
///
///     source words -> encoder layers -> "memory" -----.  (to each decoder layer)
///     target words ------------------> decoder layers -> the word behind each
///
/// Fields: "inputs", the source's words; "lengths", how many of them count; "targets", the target's words, from the one
/// that begins a text; "labels", the words behind them; "weights". A label below 0 is one that does not count:
/// -100, as in PyTorch. With W the width, a = A HeadWidth and V words it has
/// L (12 W a + 3 (3 a + W) + 2 (2 H W + H + W) + 10 W) + 2 V W parameters.
template <int Layers, int Hidden, int Heads, int SourceTokens = 128, int TargetTokens = SourceTokens,
          int Vocabulary = 64'000, int Width = 1024, int HeadWidth = 64, class T = float>
struct encoder_decoder
    : model<
          input<std::int32_t, SourceTokens>,
          named<"words", tied<"words", embedding<Vocabulary, Width, T, times_root_of_width>>>, sinusoidal_positions,
          named<"encoder", repeat<Layers, encoder_layer<Heads, HeadWidth, Hidden>>>, stash<"memory">,
          only<from<"targets", tensor<std::int32_t, TargetTokens>>>,
          named<"target_words", tied<"words", embedding<Vocabulary, Width, T, times_root_of_width>>>,
          sinusoidal_positions, named<"decoder", repeat<Layers, decoder_layer<Heads, HeadWidth, Hidden>>>,
          named<"head", token_head<Vocabulary, no_bias, softmax_cross_entropy_with<cross_entropy{.ignored = -100}>>>> {
};

}  // namespace gpipe
