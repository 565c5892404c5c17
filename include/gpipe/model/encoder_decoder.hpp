#pragma once

#include <cstdint>
#include <type_traits>

#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/attention/attention.hpp>
#include <gpipe/layer/attention/cross_attention.hpp>
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

/// Options of `encoder_decoder`, with the sizes of Huang et al., "GPipe", 2019.
struct encoder_decoder_options {
  int source_tokens = 128;
  int target_tokens = 0;  ///< 0: as many as `source_tokens`
  int vocabulary = 64'000;
  int width = 1024;
  int head_width = 64;  ///< of an attention head, so attention is Heads x head_width wide
  /// The dropped share, in percent, of embeddings and of the outputs of attention and feed-forward layers.
  detail::share<100> dropout = 0;
  double_bits smoothing = 0;  ///< of labels: see `cross_entropy`
  double_bits clip = 0;       ///< of logits, in training: see `cross_entropy`
  /// Feed-forward weights begin with Xavier's values over the root of 5 Layers, the number of residual branches: the
  /// factor of Fixup (Zhang et al., 2019), to which the paper refers.
  bool depth_scaled = false;
  bool final_norms = false;  ///< layer_norm after the encoder, and after the decoder
  bool tied_head = false;    ///< the head's weight, also in slices, is the table of words
  int head_slices = 1;       ///< slices of the head, each a separate layer
};

namespace detail {

/// Parts of `encoder_decoder` by its options.
template <int Layers, int Hidden, int Heads, encoder_decoder_options O, class T>
struct translating {
  static constexpr int target_tokens = O.target_tokens > 0 ? O.target_tokens : O.source_tokens;
  /// The field "lengths" counts the words of each source; the rest is padding.
  static constexpr attention_options to_source{.heads = Heads, .head_width = O.head_width, .padded = true};
  static constexpr attention_options to_earlier{.heads = Heads, .head_width = O.head_width, .causal = true};
  static constexpr cross_entropy settings{.smoothing = O.smoothing, .ignored = -100, .clip = O.clip};
  static constexpr initializer scaled = initializer::xavier().over_root(5 * Layers);

  template <bool Given, class... Items>
  using if_given = std::conditional_t<Given, sequence<Items...>, sequence<>>;
  using dropped = if_given<(O.dropout > 0), dropout<O.dropout>>;
  using norm = if_given<O.final_norms, layer_norm>;
  using hidden =
      std::conditional_t<O.depth_scaled, initialized<feed_forward<Hidden, relu>, scaled>, feed_forward<Hidden, relu>>;

  // A row of the table has about the length 1, and is multiplied by the root of the width.
  using words =
      tied<"words",
           initialized<embedding<O.vocabulary, O.width, T, times_root_of_width>, initializer::normal(O.width)>>;

  struct encoder_layer
      : sequence<residual<layer_norm, attention<to_source>, dropped>, residual<layer_norm, hidden, dropped>> {};
  struct decoder_layer : sequence<residual<layer_norm, attention<to_earlier>, dropped>,
                                  residual<layer_norm, pop<"memory">, cross_attention<to_source>, dropped>,
                                  residual<layer_norm, hidden, dropped>> {};

  template <class... Head>
  using with_head =
      model<input<std::int32_t, O.source_tokens>, named<"words", words>, sinusoidal_positions, dropped,
            named<"encoder", repeat<Layers, encoder_layer>>, norm, stash<"memory">,
            only<from<"targets", tensor<std::int32_t, target_tokens>>>, named<"target_words", words>,
            sinusoidal_positions, dropped, named<"decoder", repeat<Layers, decoder_layer>>, norm, Head...>;
  using loss = softmax_cross_entropy_with<settings>;
  using head = token_head<O.vocabulary, no_bias, gpipe::slices<O.head_slices>, loss>;
  using type = std::conditional_t<
      !O.tied_head, with_head<named<"head", head>>,
      std::conditional_t<O.head_slices == 1,
                         with_head<named<"head", tied<"words", linear<O.vocabulary, no_bias>>>, loss>,
                         with_head<named<"head", tied<"words", head>>>>>;
};

}  // namespace detail

/// The Transformer for translation of Huang et al., "GPipe", 2019, section 5: T(L, H, A) is `encoder_decoder<L, H, A>`.
/// Layers have their norm first, as in Lingvo. Source and target have one table of words, and the last layer another,
/// unless an option changes it:
///
///     encoder_decoder<6, 8192, 16>
///     encoder_decoder<2, 768, 3, {.source_tokens = 40, .vocabulary = 6000, .width = 192, .dropout = 10}>
///
///     source words -> encoder layers -> "memory" -----.  (to each decoder layer)
///     target words ------------------> decoder layers -> the word after each
///
/// Fields: "inputs", the source's words; "lengths", how many of them count; "targets", the target's words, from the one
/// that begins a text; "labels", the words after them; "weights". The label -100 does not count, as in PyTorch.
/// With W the width, a = A HeadWidth and V words it has
/// L (12 W a + 3 (3 a + W) + 2 (2 H W + H + W) + 10 W) + 2 V W parameters.
template <int Layers, int Hidden, int Heads, encoder_decoder_options Options = encoder_decoder_options{},
          class T = float>
struct encoder_decoder : detail::translating<Layers, Hidden, Heads, Options, T>::type {};

}  // namespace gpipe
