#pragma once

#include <gpipe/core/tensors/tensor.hpp>
#include <gpipe/layer/convolution/conv2d.hpp>

namespace gpipe {

namespace detail {

/// The options of the equivalent conv2d: as given along the width, and the defaults along the height of 1.
constexpr conv_options along_the_width(conv_options options) {
  options.stride.height = options.dilation.height = 1;
  if (!(options.padding == same_padding)) options.padding.height = 0;
  return options;
}

}  // namespace detail

/// A convolution along a sequence of L rows of C channels each: PyTorch's Conv1d, with its first values. It is the
/// conv2d of a map that is one pixel high.
///
///     feature_map<T, C, 1, L> to feature_map<T, Out, 1, L'>,  L' = (L + 2 p - d (Kernel - 1) - 1) / s + 1
///     tensor<T, L, C> to tensor<T, L', Out>: the same numbers in memory
///     weight {Kernel, C / groups, Out}: PyTorch's {Out, C / groups, Kernel} with its extents in another order; bias
///     {Out}
///
///     conv1d<64, 3, conv_options{.padding = same_padding}>
///     conv1d<64, 5, conv_options{.stride = 2, .bias = false}>
///
/// Norms of channels and poolings take the map: begin with input_image<float, C, 1, L>. The map, flattened, has
/// PyTorch's order; a tensor of rows is PyTorch's {C, L} transposed.
template <int Out, int Kernel = 0, auto Given = conv_options{}>
struct conv1d {
  static_assert(Out > 0, "gpipe: conv1d<Out, Kernel>: Out, the number of output channels, must be at least 1");

  static constexpr height_width window{1, Kernel};
  static constexpr conv_options given = detail::options_of<conv_options, Given>();
  static constexpr conv_options options = detail::along_the_width(given);
  using of_pixels = conv2d<Out, window, options>;

  static constexpr detail::short_name shown_name = detail::name_of_convolution("conv1d", Out, Kernel, given);

  template <class In>
  using output_of = typename of_pixels::template output_of<In>;

  template <class In, class... Position>
  struct check {
    using broken_promise = void;  // no sequence: see `on`
  };
  template <class T, int C, int L, class... Position>
  struct check<feature_map<T, C, 1, L>, Position...> {
    using row = feature_map<T, C, 1, L>;
    using broken_promise =
        detail::first_broken<detail::unless<detail::are_options<conv_options, Given>,
                                            broken::convolution_has_options<conv1d, row, false, Position...>>,
                             typename of_pixels::template check<row, Position...>::broken_promise>;
  };
  template <class T, int L, int C, class... Position>
  struct check<tensor<T, L, C>, Position...> : check<feature_map<T, C, 1, L>, Position...> {};
  template <class In, class... Position>
  using refusal = typename check<In, Position...>::broken_promise;

  template <class On, class Map>
  using of_row = detail::convolution_layer<On, Map, output_of<Map>, false,
                                           detail::convolution_from<Map, Out, window, options>(), options.bias, true>;

  template <class In>
  struct on;

  template <class T, int C, int L>
  requires(detail::is_floating(dtype_of<T>)) struct on<feature_map<T, C, 1, L>>
      : of_row<on<feature_map<T, C, 1, L>>, feature_map<T, C, 1, L>> {
    using layer = conv1d;
    static_assert(detail::accepted<refusal<feature_map<T, C, 1, L>>>);
  };
  template <class T, int L, int C>
  requires(detail::is_floating(dtype_of<T>)) struct on<tensor<T, L, C>>
      : of_row<on<tensor<T, L, C>>, feature_map<T, C, 1, L>> {
    using layer = conv1d;
    static_assert(detail::accepted<refusal<tensor<T, L, C>>>);
    using output = tensor<T, output_of<feature_map<T, C, 1, L>>::width, Out>;
  };
};

}  // namespace gpipe
