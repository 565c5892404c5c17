#pragma once

#include <cstdint>

#include <gpipe/layer/attention/causal_attention.hpp>
#include <gpipe/layer/attention/embedding.hpp>
#include <gpipe/layer/attention/positions.hpp>
#include <gpipe/layer/contract/initialized.hpp>
#include <gpipe/layer/linear/feed_forward.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/layer/normalization/layer_norm.hpp>
#include <gpipe/model/model.hpp>

namespace gpipe {

/// A block of GPT-2 in a model of N blocks. First values have a deviation of 0.02, and what writes to the residual the
/// 2 N-th part of that variance (Radford et al., "Language Models are Unsupervised Multitask Learners", 2019).
template <int Width, int Heads, int Blocks, initializer First = initializer::deviation(0.02)>
struct gpt2_block
    : sequence<residual<named<"ln_1", layer_norm>,
                        named<"attn", initialized<causal_attention<Heads>, First, First.over_root(2 * Blocks)>>>,
               residual<named<"ln_2", layer_norm>,
                        named<"mlp", initialized<feed_forward<4 * Width>, First, First.over_root(2 * Blocks)>>>> {};

/// GPT-2, or a smaller model of its kind: the class of each token is the token behind it, and the weight of the last
/// layer is the embedding's.
///
///     (12 d^2 + 13 d) N + V d + T d + 2 d parameters, with N blocks of width d, V tokens and T positions:
///     gpt2<12, 768> 124 million, gpt2<24, 1024> 355, gpt2<36, 1280> 774, gpt2<48, 1600> 1558
///
/// T is the type of all edges behind the tokens; `in_bf16` gives the model with bf16. Its paths are h.0.ln_1.weight and
/// so on; `hugging_face_gpt2()` maps them to the names of Hugging Face's files. The table of positions has Rows rows;
/// those behind the Tokens are not used (see `lengths`).
template <int Blocks, int Width, int Heads = Width / 64, int Tokens = 1024, int Vocabulary = 50'257, class T = float,
          int Rows = Tokens>
struct gpt2
    : model<input<std::int32_t, Tokens>,
            named<"wte", tied<"wte", initialized<embedding<Vocabulary, Width, T>, initializer::deviation(0.02)>>>,
            named<"wpe", initialized<learned_positions<Rows>, initializer::deviation(0.02)>>,
            named<"h", repeat<Blocks, gpt2_block<Width, Heads, Blocks>>>, named<"ln_f", layer_norm>,
            named<"lm_head", tied<"wte", linear<Vocabulary, no_bias>>>, softmax_cross_entropy> {
  using rounded = gpt2<Blocks, Width, Heads, Tokens, Vocabulary, bf16, Rows>;
};

}  // namespace gpipe
