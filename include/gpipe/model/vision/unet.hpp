#pragma once

#include <type_traits>

#include <gpipe/layer/activation/leaky_relu.hpp>
#include <gpipe/layer/convolution/conv2d.hpp>
#include <gpipe/layer/loss/binary_cross_entropy.hpp>
#include <gpipe/layer/normalization/instance_norm.hpp>
#include <gpipe/layer/pooling/max_pool.hpp>
#include <gpipe/layer/regularization/channel_dropout.hpp>
#include <gpipe/layer/shape/concat.hpp>
#include <gpipe/layer/shape/pad.hpp>
#include <gpipe/layer/shape/upsample.hpp>
#include <gpipe/model/model.hpp>

namespace gpipe {

/// U-Net's four layers of one convolution.
template <int Out>
struct unet_block : sequence<conv2d<Out, 3, conv_options{.padding = 1, .bias = false}>, channel_dropout<10>,
                             instance_norm<>, leaky_relu<>> {};

namespace detail {

/// B blocks, all but the last `Middle` wide.
template <int B, int Middle, int Out>
struct unet_stack : sequence<unet_block<Middle>, repeat<B - 2, unet_block<Middle>>, unet_block<Out>> {};
template <int Middle, int Out>
struct unet_stack<1, Middle, Out> : unet_block<Out> {};
template <int Middle, int Out>
struct unet_stack<2, Middle, Out> : sequence<unet_block<Middle>, unet_block<Out>> {};

/// A level: on the way down a stack, whose output is stashed, and half the image; then the lower levels; on the way
/// up twice the image, joined with the stash, and a stack. An image with an odd side lacks a row when it comes back.
template <int Level, int Depth, int B, int C, int Side>
struct unet_level : scope<unet_stack<B, (C << Level), (C << Level)>, stash<"skip">, max_pool<2>,
                          unet_level<Level + 1, Depth, B, C, Side / 2>, upsample<2>,
                          std::conditional_t<Side % 2 == 0, sequence<>, pad_to<Side, Side>>, pop<"skip">,
                          gpipe::concat<>, unet_stack<B, (C << Level) / 2, (C << Level) / 2>> {};
template <int Depth, int B, int C, int Side>
struct unet_level<Depth, Depth, B, C, Side> : unet_stack<B, (C << Depth), (C << Depth) / 2> {};

}  // namespace detail

/// U-Net (Ronneberger, Fischer, Brox, 2015) as torchgpipe builds it (Kim et al., 2020): B convolutions per stack, C
/// channels at the top, five levels. It classifies each pixel of an image {3, Side, Side}: the field "labels" is 0
/// or 1.
///
///     C  ------------------- skip ------------------> 2 C -> C / 2 -> 1 x 1 -> a number per pixel
///        2 C  ---------- skip -----------> 4 C -> C
///            ...                        ...
///                16 C -> 32 C -> 16 C
///
///     parameters of (B, C): (5, 64) 232,687,328  (6, 72) 362,157,516  (11, 128) 2,213,834,176  (24, 160) 7,802,903,600
template <int B, int C, int Side = 192, int Channels = 3, class T = float>
struct unet : model<input_image<T, Channels, Side, Side>, detail::unet_level<0, 5, B, C, Side>,
                    conv2d<1, 1, conv_options{.bias = false}>, binary_cross_entropy> {
  static_assert(B >= 1 && C >= 2 && C % 2 == 0, "gpipe: unet<B, C>: B must be at least 1 and C even");
};

}  // namespace gpipe
