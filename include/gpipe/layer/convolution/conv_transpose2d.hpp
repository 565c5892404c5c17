#pragma once

#include <gpipe/layer/convolution/conv2d.hpp>

namespace gpipe {

/// The transpose of a convolution, which makes an image larger: PyTorch's ConvTranspose2d, with its first values. It
/// is the gradient of the input of a convolution from Out to C channels:
///
///     feature_map<T, C, H, W> to feature_map<T, Out, H', W'>,  H' = (H - 1) s - 2 p + d (KH - 1) + 1 + output padding
///     weight {KH, KW, Out / groups, C}: PyTorch's {C, Out / groups, KH, KW} with its extents in another order; bias
///     {Out}
///
///     conv_transpose2d<64, 2, conv_options{.stride = 2}>           twice as high and as wide
template <int Out, height_width Kernel = 0, auto Given = conv_options{}>
struct conv_transpose2d : detail::convolution_base<conv_transpose2d<Out, Kernel, Given>, Out, Kernel, Given> {
  static_assert(Out > 0,
                "gpipe: conv_transpose2d<Out, Kernel>: Out, the number of output channels, must be at least 1");

  using base = detail::convolution_base<conv_transpose2d, Out, Kernel, Given>;
  static constexpr conv_options options = base::options;
  static constexpr height_width padding = base::padding;
  static constexpr detail::short_name shown_name =
      detail::name_of_convolution("conv_transpose2d", Out, Kernel, options);
  static constexpr int extent(int in, int kernel, int stride, int pads, int dilation, int more) {
    return (in - 1) * stride - 2 * pads + dilation * (kernel - 1) + 1 + more;
  }
  static constexpr int height_of(int in) {
    return extent(in, Kernel.height, options.stride.height, padding.height, options.dilation.height,
                  options.output_padding.height);
  }
  static constexpr int width_of(int in) {
    return extent(in, Kernel.width, options.stride.width, padding.width, options.dilation.width,
                  options.output_padding.width);
  }
  static constexpr bool fits(int kernel, int stride, int pads, int dilation, int out) {
    return kernel > 0 && stride > 0 && pads >= 0 && dilation > 0 && out > 0;
  }

  template <class In>
  static constexpr detail::convolution_windows windows_of = [] {
    const int height = height_of(In::height), width = width_of(In::width);
    return detail::convolution_windows{
        fits(Kernel.height, options.stride.height, padding.height, options.dilation.height, height),
        fits(Kernel.width, options.stride.width, padding.width, options.dilation.width, width), height, width};
  }();
  static constexpr bool may_pad_output(int more, int stride) { return 0 <= more && more < stride; }

  template <class In>
  struct on;

  template <class In>
  using output_of = feature_map<typename In::value_type, Out, height_of(In::height), width_of(In::width)>;

  // The shape of the convolution from this layer's output to its input.
  template <detail::floating_map In>
  struct on<In> : detail::convolution_layer<on<In>, In, output_of<In>, true,
                                            detail::convolution_from<output_of<In>, In::channels, Kernel, options>(),
                                            options.bias> {
    using layer = conv_transpose2d;
    static_assert(detail::accepted<typename base::template check<In>::broken_promise>);
  };
};

}  // namespace gpipe
