#pragma once

#include "measure.hpp"

#include <gpipe/core/descriptions/optimizer.hpp>
#include <gpipe/core/numbers/random.hpp>
#include <gpipe/layer/shape/add.hpp>
#include <gpipe/layer/activation/gelu.hpp>
#include <gpipe/layer/normalization/layer_norm.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/model/items.hpp>
#include <gpipe/train/trainer.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace bench {

inline constexpr int inputs = 64, classes = 10;

template <int Blocks, int Width>
struct residual_mlp
    : gpipe::model<
          gpipe::input<float, inputs>, gpipe::linear<Width>,
          gpipe::repeat<Blocks, gpipe::residual<gpipe::layer_norm, gpipe::linear<4 * Width>, gpipe::gelu,
                                                gpipe::linear<Width>>>,
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

}  // namespace bench
