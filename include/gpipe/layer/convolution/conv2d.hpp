#pragma once

#include <gpipe/layer/convolution/convolution_kernels.hpp>

namespace gpipe {

/// A convolution of an image: PyTorch's Conv2d, with its first values.
///
///     feature_map<T, C, H, W> to feature_map<T, Out, H', W'>,  H' = (H + 2 p - d (KH - 1) - 1) / s + 1, W' likewise
///     weight {KH, KW, C / groups, Out}: PyTorch's {Out, C / groups, KH, KW} with its extents in another order; bias
///     {Out}
///
///     conv2d<64, 3, conv_options{.stride = 2, .padding = 1}>
///     conv2d<64, height_width{1, 7}, conv_options{.padding = {0, 3}, .bias = false}>
///
/// The formula is in `convolution_shape`. The weight is packed once per step; for bf16, packing rounds it.
template <int Out, height_width Kernel = 0, auto Given = conv_options{}>
struct conv2d : detail::convolution_base<conv2d<Out, Kernel, Given>, Out, Kernel, Given> {
  static_assert(Out > 0, "gpipe: conv2d<Out, Kernel>: Out, the number of output channels, must be at least 1");

  using base = detail::convolution_base<conv2d, Out, Kernel, Given>;
  static constexpr conv_options options = base::options;
  static constexpr height_width padding = base::padding;
  static constexpr detail::short_name shown_name = detail::name_of_convolution("conv2d", Out, Kernel, options);
  template <class In>
  using rows_of =
      detail::windows<In::height, Kernel.height, options.stride.height, padding.height, options.dilation.height>;
  template <class In>
  using columns_of =
      detail::windows<In::width, Kernel.width, options.stride.width, padding.width, options.dilation.width>;

  template <class In>
  static constexpr detail::convolution_windows windows_of{
      rows_of<In>::fits, columns_of<In>::fits, In::height + 2 * padding.height, In::width + 2 * padding.width};
  static constexpr bool may_pad_output(int more, int /* stride */) { return more == 0; }

  template <class In>
  struct on;

  template <class In>
  using output_of = feature_map<typename In::value_type, Out, rows_of<In>::count, columns_of<In>::count>;

  template <detail::floating_map In>
  struct on<In> : detail::convolution_layer<on<In>, In, output_of<In>, false,
                                            detail::convolution_from<In, Out, Kernel, options>(), options.bias> {
    using layer = conv2d;
    static_assert(detail::accepted<typename base::template check<In>::broken_promise>);
  };
};

}  // namespace gpipe
