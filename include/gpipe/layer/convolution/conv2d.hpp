#pragma once

#include <gpipe/layer/convolution/convolution_kernels.hpp>

namespace gpipe {

/// A convolution of a picture: PyTorch's Conv2d, with its first values.
///
///     feature_map<T, C, H, W> to feature_map<T, Out, H', W'>,  H' = (H + 2 p - d (KH - 1) - 1) / s + 1, W' likewise
///     weight {KH, KW, C / groups, Out}: PyTorch's {Out, C / groups, KH, KW} with its extents in another order; bias
///     {Out}
///
///     conv2d<64, 3, conv_options{.stride = 2, .padding = 1}>
///     conv2d<64, height_width{1, 7}, conv_options{.padding = {0, 3}, .bias = false}>
///
/// The formula is that of `convolution_shape`. The weight is packed once per step; for bf16, packing rounds it.
template <int Out, height_width Kernel, conv_options Options = conv_options{}>
struct conv2d {
  static_assert(Out > 0, "gpipe: conv2d<Out, Kernel>: Out, the number of output channels, must be at least 1");

  static constexpr detail::short_name shown_name = detail::name_of_convolution("conv2d", Out, Kernel, Options);

  static constexpr height_width padding = detail::pixels_of_padding(Options.padding, Kernel, Options.dilation);
  template <class In>
  using rows_of =
      detail::windows<In::height, Kernel.height, Options.stride.height, padding.height, Options.dilation.height>;
  template <class In>
  using columns_of =
      detail::windows<In::width, Kernel.width, Options.stride.width, padding.width, Options.dilation.width>;

  template <class In, class... Position>
  struct check {
    using broken_promise = void;  // no feature map: see `on`
  };
  template <detail::floating_map In, class... Position>
  struct check<In, Position...> {
    using broken_promise = detail::first_broken<
        detail::unless<rows_of<In>::fits,
                       broken::window_is_in_the_picture<conv2d, In, Kernel.height, In::height + 2 * padding.height,
                                                        false, Position...>>,
        detail::unless<columns_of<In>::fits,
                       broken::window_is_in_the_picture<conv2d, In, Kernel.width, In::width + 2 * padding.width, false,
                                                        Position...>>,
        detail::unless<detail::padding_exists(Options.padding, Kernel, Options.stride, Options.dilation),
                       broken::same_padding_keeps_the_picture<conv2d, In, false, Position...>>,
        detail::unless<detail::groups_divide(Options.groups, In::channels, Out),
                       broken::groups_divide_channels<conv2d, In, false, Position...>>,
        detail::unless<Options.output_padding == height_width(0),
                       broken::output_padding_is_below_the_stride<conv2d, In, Options.output_padding.height,
                                                                  Options.stride.height, false, Position...>>>;
  };
  template <class In, class... Position>
  using refusal = typename check<In, Position...>::broken_promise;

  template <class In>
  struct on;

  template <class In>
  using output_of = feature_map<typename In::value_type, Out, rows_of<In>::count, columns_of<In>::count>;

  template <detail::floating_map In>
  struct on<In> : detail::convolution_layer<on<In>, In, output_of<In>, false,
                                            detail::convolution_from<In, Out, Kernel, Options>(), Options.bias> {
    using layer = conv2d;
    static_assert(detail::accepted<refusal<In>>);
  };
};

}  // namespace gpipe
