#pragma once

#include <string_view>
#include <type_traits>

#include <gpipe/core/text/type_name.hpp>
#include <gpipe/layer/contract/bound.hpp>

namespace gpipe {

/// A number for each direction of an image: `height_width{1, 7}`; one number means both: `3`.
struct height_width {
  int height, width;

  constexpr height_width(int both) : height(both), width(both) {}  // NOLINT(google-explicit-constructor)
  constexpr height_width(int high, int wide) : height(high), width(wide) {}
  friend constexpr bool operator==(height_width, height_width) = default;
};

/// As a convolution's padding: the padding that keeps the height and the width of the image, dilation (kernel - 1)
/// / 2. The stride must be 1, and the window must reach over an odd number of pixels, dilation (kernel - 1) + 1.
inline constexpr height_width same_padding = -1;

namespace detail {

/// The last argument of a layer with windows is its options. For an argument of another type, such as a stride,
/// `refusal` has the error, and the usual options are used.
template <class Options, auto Given>
inline constexpr bool are_options = std::is_same_v<std::remove_cvref_t<decltype(Given)>, Options>;
template <class Options, auto Given>
constexpr Options options_of() {
  if constexpr (are_options<Options, Given>) return Given;
  else return {};
}

/// "3", or "1 x 7".
constexpr short_name& operator<<(short_name& text, height_width extents) {
  text << extents.height;
  return extents.width == extents.height ? text : text << " x " << extents.width;
}
/// ", stride 2", unless it is the usual one.
constexpr void add_option(short_name& text, std::string_view name, height_width value, height_width usual) {
  if (!(value == usual)) text << ", " << name << " " << value;
}

/// The positions of a window in a padded image, in one direction. Output t sees the inputs t stride - padding + k
/// dilation, k from 0 to window - 1, if they are in the image.
///
///     window 3, stride 2, padding 1, image 0 ... 4    t = 0   (-1) 0 1
///                                                     t = 1         1 2 3
///                                                     t = 2             3 4 (5)
template <int Extent, int Window, int Stride, int Padding, int Dilation = 1>
struct windows {
  static constexpr int reach = Dilation * (Window - 1) + 1;  ///< inputs from the first to the last that a window sees
  static constexpr bool fits =
      Window > 0 && Stride > 0 && Padding >= 0 && Dilation > 0 && Extent + 2 * Padding >= reach;
  static constexpr int count = fits ? (Extent + 2 * Padding - reach) / Stride + 1 : 1;
};

/// The pixels of a padding, in one direction; 0 for one that is not a number of pixels and cannot keep the image.
constexpr int pixels_of_padding(bool keeps_extent, int padding, int window, int dilation) {
  return !keeps_extent ? padding : window > 0 && dilation > 0 ? dilation * (window - 1) / 2 : 0;
}
constexpr height_width pixels_of_padding(height_width padding, height_width window, height_width dilation) {
  const bool keeps_extent = padding == same_padding;
  return {pixels_of_padding(keeps_extent, padding.height, window.height, dilation.height),
          pixels_of_padding(keeps_extent, padding.width, window.width, dilation.width)};
}
/// Whether a padding is a number of pixels, or can keep the image.
constexpr bool padding_exists(height_width padding, height_width window, height_width stride, height_width dilation) {
  return !(padding == same_padding) || (stride == height_width(1) && dilation.height * (window.height - 1) % 2 == 0 &&
                                        dilation.width * (window.width - 1) % 2 == 0);
}

}  // namespace detail

namespace broken {

template <class Layer, class Input, bool Holds, class... Position>
struct convolution_has_options {
  static_assert((holds<Holds, Position..., Layer, Input>),
                "gpipe: a convolution has its output channels, its window, and conv_options, such as conv2d<64, 3, "
                "conv_options{.stride = 2, .padding = 1}>; the compiler deduces the input channels");
};
template <class Layer, class Input, bool Holds, class... Position>
struct pool_has_options {
  static_assert((holds<Holds, Position..., Layer, Input>),
                "gpipe: a pooling has its window and pool_options, such as max_pool<3, pool_options{.stride = 2, "
                ".padding = 1}>; without a stride its windows do not overlap, as in max_pool<2>");
};
template <class Layer, class Input, int Window, int PaddedExtent, bool Holds, class... Position>
struct window_is_in_the_image {
  static_assert((holds<Holds, Position..., Layer, Input>),
                "gpipe: a window must be at least 1 and not larger than the image with its padding, the stride "
                "and the dilation at least 1, and the padding at least 0: change them, or give the layer a larger "
                "image");
};
template <class Layer, class Input, int Window, int Padding, int Stride, bool Holds, class... Position>
struct every_window_sees_a_pixel {
  static_assert(
      (holds<Holds, Position..., Layer, Input>),
      "gpipe: a pooling's padding must be at most half its window, so that every window sees a pixel, and its "
      "stride at least 0, which stands for that of the window: change them");
};
template <class Layer, class Input, int OutputPadding, int Stride, bool Holds, class... Position>
struct output_padding_is_below_the_stride {
  static_assert((holds<Holds, Position..., Layer, Input>),
                "gpipe: output_padding must be at least 0 and below the stride of a conv_transpose2d, and conv2d has "
                "none: choose a smaller one, or put pad<...> behind the layer");
};
template <class Layer, class Input, bool Holds, class... Position>
struct same_padding_keeps_the_image {
  static_assert((holds<Holds, Position..., Layer, Input>),
                "gpipe: same_padding needs a stride of 1 and a window that reaches over an odd number of pixels, "
                "dilation (kernel - 1) + 1: choose an odd kernel, or write the padding as numbers, with a pad<...> "
                "before the convolution where one side needs more than the other");
};
template <class Layer, class Input, bool Holds, class... Position>
struct groups_divide_channels {
  static_assert((holds<Holds, Position..., Layer, Input>),
                "gpipe: a convolution's groups must divide its input channels and its output channels: choose a "
                "divisor of both");
};

}  // namespace broken

}  // namespace gpipe
