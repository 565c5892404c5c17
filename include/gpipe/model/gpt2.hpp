#pragma once

#include <cstdint>
#include <type_traits>

#include <gpipe/layer/attention/causal_attention.hpp>
#include <gpipe/layer/attention/embedding.hpp>
#include <gpipe/layer/attention/positions.hpp>
#include <gpipe/layer/attention/token_head.hpp>
#include <gpipe/layer/contract/initialized.hpp>
#include <gpipe/layer/contract/share.hpp>
#include <gpipe/layer/linear/feed_forward.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/layer/normalization/layer_norm.hpp>
#include <gpipe/layer/regularization/dropout.hpp>
#include <gpipe/model/model.hpp>
#include <gpipe/model/structure/sliced_head.hpp>

namespace gpipe {

// change: a shipped model
/// A block of GPT-2 in a model of N blocks. First values have a deviation of 0.02, and layers that write to the
/// residual the 2 N-th part of that variance (Radford et al., "Language Models are Unsupervised Multitask Learners",
/// 2019). `Dropped` precedes each addition; it has names, as all parts of a block have.
template <int Width, int Heads, int Blocks, initializer First = initializer::deviation(0.02), class... Dropped>
struct gpt2_block
    : sequence<
          residual<named<"ln_1", layer_norm>,
                   named<"attn", initialized<causal_attention<Heads>, First, First.over_root(2 * Blocks)>>, Dropped...>,
          residual<named<"ln_2", layer_norm>,
                   named<"mlp", initialized<feed_forward<4 * Width>, First, First.over_root(2 * Blocks)>>,
                   Dropped...>> {};

/// Options of `gpt2_with`, with the sizes of GPT-2.
struct gpt2_options {
  int heads = 0;  ///< 0: as many as have width 64
  int tokens = 1024;
  int vocabulary = 50'257;
  int positions = 0;  ///< rows of the table of positions, of which the first `tokens` are used; 0: one per token
  /// The dropped share, in percent, of embeddings and of the outputs of attention and feed-forward layers.
  detail::share<100> dropout = 0;
  int head_slices = 1;  ///< slices of the head, each a separate layer
};

namespace detail {

/// GPT-2 by its options.
template <int Blocks, int Width, gpt2_options O, class T, class... Dropped>
struct gpt2_of {
  static constexpr int heads = O.heads > 0 ? O.heads : Width / 64, rows = O.positions > 0 ? O.positions : O.tokens;
  static constexpr initializer first = initializer::deviation(0.02);
  template <class... Head>
  using with_head = model<input<std::int32_t, O.tokens>,
                          named<"wte", tied<"wte", initialized<embedding<O.vocabulary, Width, T>, first>>>,
                          named<"wpe", initialized<learned_positions<rows>, first>>, Dropped...,
                          named<"h", repeat<Blocks, gpt2_block<Width, heads, Blocks, first, Dropped...>>>,
                          named<"ln_f", layer_norm>, Head...>;
  using type = std::conditional_t<
      O.head_slices == 1,
      with_head<named<"lm_head", tied<"wte", linear<O.vocabulary, no_bias>>>, softmax_cross_entropy>,
      with_head<named<"lm_head", tied<"wte", token_head<O.vocabulary, no_bias, gpipe::slices<O.head_slices>>>>>>;
};
template <int Blocks, int Width, gpt2_options O, class T>
requires(O.dropout > 0) struct gpt2_of<Blocks, Width, O, T>
    : gpt2_of<Blocks, Width, O, T, named<"drop", dropout<O.dropout>>> {
};

}  // namespace detail

/// GPT-2, or a smaller model of its kind: the class of each token is the token after it, and the weight of the last
/// layer is the embedding's.
///
///     (12 d^2 + 13 d) N + V d + T d + 2 d parameters, with N blocks of width d, V tokens and T positions:
///     gpt2_with<12, 768> 124 million, <24, 1024> 355, <36, 1280> 774, <48, 1600> 1558
///
///     gpt2_with<4, 256, gpt2_options{.tokens = 128, .vocabulary = 256, .dropout = 10}>
///
/// T is the type of all edges after the tokens; `in_bf16` gives the model with bf16. Its paths are h.0.ln_1.weight and
/// so on; `hugging_face_gpt2()` maps them to the names of Hugging Face's files.
template <int Blocks, int Width, gpt2_options Options = gpt2_options{}, class T = float>
struct gpt2_with : detail::gpt2_of<Blocks, Width, Options, T>::type {
  // assumes: half precision is bf16
  using rounded = gpt2_with<Blocks, Width, Options, bf16>;
};

/// The same with sizes by their order. The table of positions has Rows rows (see `lengths`).
template <int Blocks, int Width, int Heads = Width / 64, int Tokens = 1024, int Vocabulary = 50'257, class T = float,
          int Rows = Tokens>
struct gpt2
    : gpt2_with<Blocks, Width,
                gpt2_options{.heads = Heads, .tokens = Tokens, .vocabulary = Vocabulary, .positions = Rows}, T> {
  using rounded = gpt2<Blocks, Width, Heads, Tokens, Vocabulary, bf16, Rows>;
};

}  // namespace gpipe
