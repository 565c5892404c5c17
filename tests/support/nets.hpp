#pragma once

// Small networks, each with a different kind of edge, and their data.

#include <cstdint>
#include <type_traits>
#include <vector>

#include <gpipe/core/numbers/random.hpp>
#include <gpipe/layer/activation/gated.hpp>
#include <gpipe/layer/activation/gelu.hpp>
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/activation/silu.hpp>
#include <gpipe/layer/attention/embedding.hpp>
#include <gpipe/layer/attention/positions.hpp>
#include <gpipe/layer/attention/token_head.hpp>
#include <gpipe/layer/linear/feed_forward.hpp>
#include <gpipe/layer/linear/gated_feed_forward.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/layer/normalization/batch_norm.hpp>
#include <gpipe/layer/normalization/layer_norm.hpp>
#include <gpipe/layer/normalization/rms_norm.hpp>
#include <gpipe/layer/regularization/dropout.hpp>
#include <gpipe/layer/shape/concat.hpp>
#include <gpipe/layer/shape/flatten.hpp>
#include <gpipe/layer/shape/reshape.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/train/data/dataset.hpp>
#include <gpipe/train/trainer.hpp>

#include "support/layers.hpp"
#include "support/training_bits.hpp"

namespace laws {

/// 18 layers, residuals across cuts: the first around the model's input, which has no gradient.
template <class T>
struct residual_net : model<input<T, 12>, residual<linear<12>>, linear<16>,
                            repeat<2, residual<layer_norm, linear<20>, gelu, dropout<25>, linear<16>>>, relu, linear<7>,
                            softmax_cross_entropy> {};

/// 9 layers: a value that three layers read, one of them twice; two rows per sample, each a channel.
template <class T>
struct skip_net : model<input<T, 12>, linear<8>, reshape<2, 4>, stash<"x">, pop<"x">, add, batch_norm<>, pop<"x">, add,
                        layer_norm, pop<"x">, add, linear<7>, softmax_cross_entropy> {};

/// 9 layers: two tensors on an edge; a loss in the middle, and unread values at the end.
template <class T>
struct pair_net
    : model<input<T, 12>, linear<12>, batch_norm<>, halve, cross, cross, join, passing_loss, linear<4>, halve> {};

/// 9 layers: integers on edges, parallel links without and with gradients, a skip from the model's input.
template <class T>
struct integer_net : model<input<std::int32_t, 3>, stash<"tokens">, lookup<T, 6, 4>, stash<"x">, signs, next, pop<"x">,
                           scale, peak, scale, pop<"tokens">, scale, linear<7>, softmax_cross_entropy> {};

/// 15 layers: tokens, positions without and with parameters, and layers whose backward overwrites what they keep. Its
/// derived buffers need no parameters.
template <class T>
struct token_net : model<input<std::int32_t, 3>, embedding<6, 8, T>, learned_positions<5>, sinusoidal_positions,
                         repeat<2, residual<rms_norm, feed_forward<20>>>, gated_feed_forward<12>, linear<10, no_bias>,
                         gated<silu>, flatten, linear<7>, softmax_cross_entropy> {};

/// 13 layers: dropout, batch norm, a skip over five layers, and a layer whose parameters three layers use.
template <class T>
struct tied_net
    : model<input<T, 12>, linear<16>, stash<"x">, tied<"w", linear<16>>, dropout<25>, gelu, batch_norm<>, pop<"x">, add,
            tied<"w", linear<16>>, residual<tied<"w", linear<16>>, relu>, linear<7>, softmax_cross_entropy> {};

/// 11 layers: tokens, whose rows are also the weight of the last layer, a loss that overwrites what it keeps. The last
/// layer has a bias of its own, and the layer before it a weight of its own and the bias of an earlier one.
template <class T>
struct headed_net : model<input<std::int32_t, 3>, tied<"words", embedding<7, 8, T>>, tied<"square", linear<8>>,
                          repeat<2, residual<rms_norm, feed_forward<20>>>, layer_norm,
                          tied<"square", linear<8>, "bias">, tied<"words", token_head<7>>> {};

/// 8 layers: a head in three slices, which have rows of the embedding's weight and biases of their own, read one value
/// and carry numbers in full precision.
template <class T>
struct sliced_net : model<input<std::int32_t, 3>, tied<"words", embedding<7, 8, T>>,
                          residual<rms_norm, feed_forward<20>>, tied<"words", token_head<7, slices<3>>>> {};

/// A table of words of six numbers, and a head; in slices: 8 layers, whose slices have 3, 2 and 2 rows of the table.
template <class T, class... Head>
struct words_net : model<input<std::int32_t, 3>, tied<"words", embedding<7, 6, T>>, residual<rms_norm, feed_forward<9>>,
                         named<"head", Head...>> {};
template <class T>
struct rows_net : words_net<T, tied<"words", token_head<7, slices<3>>>> {};

/// 8 layers: three losses, of which two read a value that goes on.
template <class T>
struct losses_net : model<input<T, 12>, linear<16>, gelu, stash<"x">, linear<7>,
                          auxiliary<"early", 400, softmax_cross_entropy>, pop<"x">, gpipe::concat<>, linear<7>,
                          auxiliary<"late", 1000, softmax_cross_entropy>, softmax_cross_entropy> {};

/// 5 layers; its widest gradient exceeds the L1 cache, so gradients of several micro-batches are computed together.
template <class T>
struct broad_net : model<input<T, 12>, linear<128>, gelu, linear<128>, linear<7>, softmax_cross_entropy> {};

/// The network of examples/digits.cpp.
struct digits_net : model<input<float, 64>, dropout<10>, linear<64>,
                          repeat<16, residual<layer_norm, linear<256>, gelu, linear<64>, dropout<10>>>, layer_norm,
                          linear<10>, softmax_cross_entropy> {};

/// A number in [-1, 1) of stream `which`.
inline double noise(std::uint32_t which, std::size_t i) {
  return 2 * static_cast<double>(uniform(draw({7, 0, which, 0}, 0, static_cast<std::uint32_t>(i)).word[0])) - 1;
}

/// The fields that a network of `T` reads: `width` inputs, and `rows` labels below 7 and weights per sample.
template <class T, class Input = T>
struct samples {
  int count, width, rows;
  std::vector<Input> inputs;
  std::vector<std::int32_t> labels;
  std::vector<T> weights;

  samples(int n, int wide, int high)
      : count(n),
        width(wide),
        rows(high),
        inputs(static_cast<std::size_t>(n * wide)),
        labels(static_cast<std::size_t>(n * high)),
        weights(labels.size()) {
    for (std::size_t i = 0; i < inputs.size(); ++i)
      inputs[i] = static_cast<Input>(std::is_integral_v<Input> ? 3 * (1 + noise(1, i)) : noise(1, i));
    for (std::size_t i = 0; i < labels.size(); ++i) {
      labels[i] = static_cast<std::int32_t>(3.5 * (1 + noise(2, i)));
      weights[i] = static_cast<T>(1 + 0.75 * noise(3, i));
    }
  }

  /// The samples [first, first + n).
  batch take(int first, int n) const {
    const auto part = [&](const auto& from, int wide) {
      return std::span(from).subspan(static_cast<std::size_t>(first * wide), static_cast<std::size_t>(n * wide));
    };
    batch b(n);
    b.with("inputs", part(inputs, width)).with("labels", part(labels, rows)).with("weights", part(weights, rows));
    return b;
  }
  batch all() const { return take(0, count); }
};

}  // namespace laws
