#pragma once

#include "measure.hpp"

#include <gpipe/core/descriptions/optimizer.hpp>
#include <gpipe/core/numbers/random.hpp>
#include <gpipe/layer/activation/gelu.hpp>
#include <gpipe/layer/attention/causal_attention.hpp>
#include <gpipe/layer/attention/embedding.hpp>
#include <gpipe/layer/attention/positions.hpp>
#include <gpipe/layer/linear/feed_forward.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/layer/normalization/layer_norm.hpp>
#include <gpipe/layer/shape/add.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/model/structure/items.hpp>
#include <gpipe/train/trainer.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace bench {

inline constexpr int inputs = 64, classes = 10;

template <int Blocks, int Width>
struct residual_mlp : gpipe::model<gpipe::input<float, inputs>, gpipe::linear<Width>,
                                   gpipe::repeat<Blocks, gpipe::residual<gpipe::layer_norm, gpipe::linear<4 * Width>,
                                                                         gpipe::gelu, gpipe::linear<Width>>>,
                                   gpipe::linear<classes>, gpipe::softmax_cross_entropy> {};

/// 4.2 M parameters: enough work for every action.
using mlp = residual_mlp<8, 256>;
/// 0.5 M in more, smaller layers: the cost of an action shows.
using mlps = residual_mlp<16, 64>;

struct random_images {
  explicit random_images(int samples)
      : images(static_cast<std::size_t>(samples) * inputs), labels(static_cast<std::size_t>(samples)) {
    for (std::size_t i = 0; i < images.size(); ++i) {
      const auto word = gpipe::draw({1, 0, 0, 0}, 0, static_cast<std::uint32_t>(i)).word[0];
      images[i] = static_cast<float>(word) * 0x1p-31F - 1;
    }
    for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int32_t>(i % classes);
  }
  gpipe::batch all() const {
    return gpipe::batch(static_cast<int>(labels.size())).with("inputs", images).with("labels", labels);
  }

  std::vector<float> images;
  std::vector<std::int32_t> labels;
};

inline constexpr int vocabulary = 256;

/// GPT-2's blocks on bytes.
template <int Blocks, int Width, int Heads, int Tokens>
struct gpt : gpipe::model<gpipe::input<std::int32_t, Tokens>, gpipe::embedding<vocabulary, Width>,
                          gpipe::learned_positions<Tokens>,
                          gpipe::repeat<Blocks, gpipe::residual<gpipe::layer_norm, gpipe::causal_attention<Heads>>,
                                        gpipe::residual<gpipe::layer_norm, gpipe::feed_forward<4 * Width>>>,
                          gpipe::layer_norm, gpipe::linear<vocabulary>, gpipe::softmax_cross_entropy> {};

/// 6.4 M parameters, 128 tokens a sample.
using tf = gpt<8, 256, 4, 128>;
/// 1.7 M parameters, 64 tokens a sample.
using tfs = gpt<8, 128, 4, 64>;

template <int Tokens>
struct random_tokens {
  explicit random_tokens(int samples)
      : inputs(static_cast<std::size_t>(samples) * Tokens), labels(inputs.size()), count(samples) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const auto drawn = gpipe::draw({2, 0, 0, 0}, 0, static_cast<std::uint32_t>(i));
      inputs[i] = static_cast<std::int32_t>(drawn.word[0] % vocabulary);
      labels[i] = static_cast<std::int32_t>(drawn.word[1] % vocabulary);
    }
  }
  gpipe::batch all() const { return gpipe::batch(count).with("inputs", inputs).with("labels", labels); }

  std::vector<std::int32_t> inputs, labels;
  int count;
};

/// The data of a network, and the useful operations of a step on one sample: 6 for each weight and row; of attention
/// 2 + 4 products of the pairs that a causal mask leaves.
template <class Net>
struct workload {
  using data = random_images;
  static double operations() { return 6.0 * static_cast<double>(gpipe::network_of<Net>.parameters()); }
};
template <int Blocks, int Width, int Heads, int Tokens>
struct workload<gpt<Blocks, Width, Heads, Tokens>> {
  using data = random_tokens<Tokens>;
  static double operations() {
    return 6.0 * Tokens * (Blocks * (12.0 * Width * Width + 1.0 * Tokens * Width) + 1.0 * Width * vocabulary);
  }
};

}  // namespace bench
