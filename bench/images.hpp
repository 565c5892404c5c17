#pragma once

#include "networks.hpp"

#include <gpipe/model/vision/amoebanet.hpp>
#include <gpipe/model/vision/resnet.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace bench {

inline constexpr int image_side = 64;

/// ResNet with two blocks of three convolutions in each group: 26 layers with weights, 14 M parameters.
struct resnet26 : gpipe::model<gpipe::input_image<float, 3, image_side, image_side>,
                               gpipe::detail::resnet_conv<64, 7, 2>, gpipe::batch_norm<>, gpipe::relu,
                               gpipe::max_pool<3, gpipe::pool_options{.stride = 2, .padding = 1}>,  //
                               gpipe::bottleneck<64, 1, true>, gpipe::bottleneck<64>,               //
                               gpipe::bottleneck<128, 2, true>, gpipe::bottleneck<128>,             //
                               gpipe::bottleneck<256, 2, true>, gpipe::bottleneck<256>,             //
                               gpipe::bottleneck<512, 2, true>, gpipe::bottleneck<512>,             //
                               gpipe::global_average_pool, gpipe::linear<classes>, gpipe::softmax_cross_entropy> {};

/// AmoebaNet-D (6, 64): 123 convolutions of 16 to 256 channels.
using amoebanet = gpipe::amoebanet_d<6, 64, gpipe::amoebanet_options{.classes = classes, .side = image_side}>;

struct random_pixels {
  explicit random_pixels(int samples)
      : pixels(static_cast<std::size_t>(samples) * 3 * image_side * image_side),
        labels(static_cast<std::size_t>(samples)) {
    for (std::size_t i = 0; i < pixels.size(); ++i) {
      const auto word = gpipe::draw({3, 0, 0, 0}, 0, static_cast<std::uint32_t>(i)).word[0];
      pixels[i] = static_cast<float>(word) * 0x1p-31F - 1;
    }
    for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int32_t>(i % classes);
  }
  gpipe::batch all() const {
    return gpipe::batch(static_cast<int>(labels.size())).with("inputs", pixels).with("labels", labels);
  }

  std::vector<float> pixels;
  std::vector<std::int32_t> labels;
};

/// The products of a convolution of one image, n x n to `side` x `side`, in operations: taps on the padding are none.
constexpr double products(int in, int out, int side, int kernel = 1, int stride = 1) {
  double taps = 0;  // of a row of windows
  for (int at = 0; at < side; ++at)
    for (int k = 0; k < kernel; ++k) {
      const int x = at * stride + k - kernel / 2;
      taps += x >= 0 && x < side * stride;
    }
  return 2.0 * in * out * taps * taps;
}

template <>
struct workload<resnet26> {
  using data = random_pixels;
  /// Forward and both gradients; the image needs none.
  static double operations() {
    double sum = 2.0 / 3 * products(3, 64, image_side / 2, 7, 2);
    int in = 64, side = image_side / 4;
    for (int group = 0; group < 4; ++group) {
      const int width = 64 << group, stride = group == 0 ? 1 : 2;
      sum += products(in, width, side);
      side /= stride;
      sum += products(width, width, side, 3, stride) + products(in, 4 * width, side);
      sum += products(4 * width, width, side) + products(width, width, side, 3) + 2 * products(width, 4 * width, side);
      in = 4 * width;
    }
    return 3 * (sum + 2.0 * in * classes);
  }
};
template <>
struct workload<amoebanet> {
  using data = random_pixels;
  /// The sum that its layers declare, so with the taps on the padding.
  static double operations() {
    const gpipe::network& net = gpipe::network_of<amoebanet>;
    double sum = 0;
    for (int l = 0; l < net.layer_count; ++l) {
      const auto& r = net.types[net.layers[l].type];
      if (!std::string_view(r.name).starts_with("conv2d") && !std::string_view(r.name).starts_with("linear")) continue;
      sum += static_cast<double>(r.cost.forward + r.cost.backward_parameters + (sum > 0 ? r.cost.backward_input : 0));
    }
    return sum;
  }
};

}  // namespace bench
