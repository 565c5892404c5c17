#pragma once

// A small network of feature maps.

#include <gpipe/layer/convolution/conv2d.hpp>
#include <gpipe/layer/convolution/conv_transpose2d.hpp>
#include <gpipe/layer/normalization/instance_norm.hpp>
#include <gpipe/layer/pooling/average_pool.hpp>
#include <gpipe/layer/pooling/max_pool.hpp>
#include <gpipe/layer/regularization/channel_dropout.hpp>

#include "support/nets.hpp"

namespace laws {

/// 10 layers: images of 2 channels and 2 x 3 pixels; convolutions without and with a bias, state, bytes that backward
/// reads, channels that are dropped, and a skip whose maps are joined.
template <class T>
struct image_net : model<input_image<T, 2, 2, 3>, conv2d<5, 3, conv_options{.padding = 1, .bias = false}>, batch_norm<>,
                         stash<"x">, max_pool<2, pool_options{.stride = 1, .padding = 1}>, channel_dropout<25>,
                         average_pool<2, pool_options{.stride = 1}>, pop<"x">, gpipe::concat<>, instance_norm<>,
                         conv_transpose2d<2, 2, conv_options{.stride = 2}>, flatten, linear<7>, softmax_cross_entropy> {
};

/// Maps of 64 pixels and more, in which batch norm keeps its sums for the parameter part, one for all samples.
template <class T>
struct broad_image_net : model<input_image<T, 1, 8, 8>, conv2d<6, 3, conv_options{.padding = 1, .bias = false}>,
                               batch_norm<>, max_pool<2>, flatten, linear<7>, softmax_cross_entropy> {};

}  // namespace laws
