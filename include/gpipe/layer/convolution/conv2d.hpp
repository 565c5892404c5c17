#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include <gpipe/core/tensors/tensor.hpp>
#include <gpipe/layer/contract/bound.hpp>
#include <gpipe/layer/contract/convolution_shape.hpp>
#include <gpipe/layer/contract/description.hpp>
#include <gpipe/layer/contract/extents.hpp>
#include <gpipe/layer/contract/operands.hpp>
#include <gpipe/layer/contract/panels.hpp>
#include <gpipe/layer/contract/window.hpp>

namespace gpipe {

// change: a convolution option
/// Options of `conv2d` and `conv_transpose2d`, with PyTorch's names and defaults.
struct conv_options {
  height_width stride = 1;
  height_width padding = 0;   ///< pixels of 0 around the image, or `same_padding`
  height_width dilation = 1;  ///< from one pixel of the window to the next
  int groups = 1;             ///< output channels see only the input channels of their group
  bool bias = true;
  height_width output_padding = 0;  ///< of `conv_transpose2d`, below its stride: rows below, columns to the right
};

namespace detail {

constexpr short_name name_of_convolution(std::string_view kind, int out, height_width kernel,
                                         const conv_options& options) {
  short_name name;
  name << kind << "<" << out << ", " << kernel;
  add_option(name, "stride", options.stride, 1);
  add_option(name, "dilation", options.dilation, 1);
  add_option(name, "groups", options.groups, 1);
  name << ">";
  return name;
}

/// The channels of a group; all of them if the number of groups is a mistake, which another assertion reports.
constexpr int of_group(int channels, int groups) { return groups > 0 ? channels / groups : channels; }

constexpr bool groups_divide(int groups, int in, int out) {
  return groups >= 1 && in % groups == 0 && out % groups == 0;
}

/// The kernels of convolutions, and of their transposes: a transpose goes forward as its convolution goes back.
///
///                     x                        y                         reads the weight as packed for
///     conv2d          input of the shape       output of the shape       forward: convolve
///     transpose       output of the shape      input of the shape        forward: convolve_backward_input
template <class T, bool Transpose>
struct convolution_kernels {
  using value_type = T;
  using number = compute_type<T>;
  static constexpr keep keeps{.input = true};

  struct numbers {
    convolution_shape shape;  ///< of one sample
    bool biased;

    constexpr convolution_shape of(int samples) const {
      convolution_shape batch = shape;
      batch.samples = samples;
      return batch;
    }
    constexpr int outputs() const { return Transpose ? shape.in_channels : shape.out_channels; }
    constexpr std::ptrdiff_t pixels() const {
      return Transpose ? std::ptrdiff_t{shape.in_height} * shape.in_width
                       : std::ptrdiff_t{shape.out_height()} * shape.out_width();
    }
  };

  template <class C>
  static void prepare(const C& c, int samples, const numbers& sizes) {
    c.template prepare_convolution<T>(sizes.of(samples));
  }
  template <class C, class A>
  static void refresh(const C& c, const A& a) noexcept {
    const number* weight = a.template parameter<0>();
    const bool forward = Transpose ? a.refreshes_for_backward_input() : a.refreshes_for_forward(),
               backward = Transpose ? a.refreshes_for_forward() : a.refreshes_for_backward_input();
    T *packed = a.template derived<0>(), *packed_back = a.template derived<1>();
    if (Transpose) std::swap(packed, packed_back);
    if (forward) c.pack_convolution(a.sizes().shape, weight, packed);
    if (backward) c.pack_convolution_backward(a.sizes().shape, weight, packed_back);
  }
  template <class C, class A>
  static void forward(const C& c, const A& a) {
    const T* weight = a.template derived<0>();
    const number* bias = a.sizes().biased ? a.template parameter<1>() : nullptr;
    const convolution_shape shape = a.sizes().of(a.samples());
    if constexpr (!Transpose) {
      c.convolve(shape, a.in(), weight, bias, a.out());
    } else {
      c.convolve_backward_input(shape, a.in(), weight, a.out());
      if (bias != nullptr)
        c.rows(a.samples() * a.sizes().pixels(), add_rows_of_table<T>{a.out(), bias, 1, a.sizes().outputs(), a.out()});
    }
  }
  template <class C, class A>
  static void backward_input(const C& c, const A& a) {
    const T* weight = a.template derived<1>();
    T* dx = a.in_gradient();
    if (dx == nullptr) return;
    const convolution_shape shape = a.sizes().of(a.samples());
    const number* none = nullptr;
    if constexpr (Transpose) c.convolve(shape, a.out_gradient(), weight, none, dx);
    else c.convolve_backward_input(shape, a.out_gradient(), weight, dx);
  }
  template <class C, class A>
  static void backward_parameters(const C& c, const A& a) {
    const T *x = a.in(), *dy = a.out_gradient();
    if (Transpose) std::swap(x, dy);
    c.convolve_backward_weight(a.sizes().of(a.samples()), x, dy, a.template gradient<0>());
    add_bias_gradient(c, a);
  }

  /// The same for several micro-batches, with the same bits: dW is read and written less often.
  template <class C, class A>
  requires requires(const C& c, row_parts<T> in, number* out, convolution_shape shape) {
    c.convolve_backward_weight(shape, in, in, out);
  }
  static void backward_parameters(const C& c, const A& calls, int micro_batches) {
    row_parts<T> x{{}, calls[0].samples()}, dy = x;  // a row is a sample
    for (int i = 0; i < micro_batches; ++i) {
      x.part[i] = calls[i].in();
      dy.part[i] = calls[i].out_gradient();
    }
    if (Transpose) std::swap(x, dy);
    c.convolve_backward_weight(calls[0].sizes().of(calls.samples()), x, dy, calls[0].template gradient<0>());
    for (int i = 0; i < micro_batches; ++i) add_bias_gradient(c, calls[i]);
  }

  template <class C, class A>
  static void add_bias_gradient(const C& c, const A& a) {
    if (!a.sizes().biased) return;
    const int outputs = a.sizes().outputs();
    c.columns(a.samples() * a.sizes().pixels(), outputs, row_entries<T>{a.out_gradient(), outputs},
              a.template gradient<1>());
  }
};

/// The weight along a sequence has no extent for the height of 1.
template <convolution_shape Shape, bool Biased, int Outputs, bool AlongSequence>
struct convolution_parameters {
  static constexpr int inputs = of_group(Shape.in_channels, Shape.groups), fan_in = Shape.taps() * inputs;
  static constexpr shape extents = AlongSequence
                                       ? shape{Shape.kernel_width, inputs, Shape.out_channels}
                                       : shape{Shape.kernel_height, Shape.kernel_width, inputs, Shape.out_channels};
  static constexpr parameter weight{"weight", extents, initializer::uniform(fan_in).with_outputs_last()};
  static constexpr parameter parameters[] = {weight, {"bias", {Outputs}, initializer::uniform(fan_in)}};
};
template <convolution_shape Shape, int Outputs, bool AlongSequence>
struct convolution_parameters<Shape, false, Outputs, AlongSequence> {
  static constexpr parameter parameters[] = {convolution_parameters<Shape, true, Outputs, AlongSequence>::weight};
};

/// The declarations of a convolution of this shape, or of its transpose, with PyTorch's first values.
template <class On, class In, class Out, bool Transpose, convolution_shape Shape, bool Biased,
          bool AlongSequence = false>
struct convolution_layer : of_kind<On, convolution_kernels<typename In::value_type, Transpose>>,
                           convolution_parameters<Shape, Biased, Out::channels, AlongSequence> {
  using output = Out;
  using T = typename In::value_type;
  static constexpr typename convolution_kernels<T, Transpose>::numbers sizes{Shape, Biased};
  static constexpr std::size_t packed = convolution_packed_size(Shape);
  static constexpr buffer derived[] = {buffer::for_forward("forward", packed, dtype_of<T>),
                                       buffer::for_backward_input("backward", packed, dtype_of<T>)};
  static constexpr auto product = static_cast<std::int64_t>(2 * packed * (Transpose ? In::pixels : Out::pixels));
  static constexpr std::int64_t sums = Biased ? static_cast<std::int64_t>(Out::size) : 0;
  static constexpr work cost{.forward = product + sums,
                             .backward_input = product,
                             .backward_parameters = product + sums,
                             .bytes = static_cast<std::int64_t>(sizeof(T) * (In::size + Out::size)),
                             .kind = work_kind::convolution};
};

// change: a convolution option
/// The shape of a convolution from `In` to `Out` channels.
template <class In, int Out, height_width Kernel, conv_options Options>
constexpr convolution_shape convolution_from() {
  constexpr height_width padding = pixels_of_padding(Options.padding, Kernel, Options.dilation);
  return {1,
          In::channels,
          In::height,
          In::width,
          Out,
          Kernel.height,
          Kernel.width,
          Options.stride.height,
          Options.stride.width,
          padding.height,
          padding.width,
          Options.dilation.height,
          Options.dilation.width,
          Options.groups};
}

/// The windows of a convolution over an input: whether they fit, and the extents that the errors name.
struct convolution_windows {
  bool rows_fit, columns_fit;
  int height, width;
};

/// The common promises of a convolution and its transpose. `Layer` has `windows_of<In>` and `may_pad_output`.
template <class Layer, int Out, height_width Kernel, auto Given>
struct convolution_base {
  static constexpr conv_options options = options_of<conv_options, Given>();
  static constexpr height_width padding = pixels_of_padding(options.padding, Kernel, options.dilation);

  template <class In, class... Position>
  struct check {
    using broken_promise = void;  // no feature map: see `on`
  };
  template <floating_map In, class... Position>
  struct check<In, Position...> {
    static constexpr convolution_windows windows = Layer::template windows_of<In>;
    static constexpr height_width more = options.output_padding, stride = options.stride;
    using broken_promise = first_broken<
        unless<are_options<conv_options, Given>, broken::convolution_has_options<Layer, In, false, Position...>>,
        unless<windows.rows_fit,
               broken::window_is_in_the_image<Layer, In, Kernel.height, windows.height, false, Position...>>,
        unless<windows.columns_fit,
               broken::window_is_in_the_image<Layer, In, Kernel.width, windows.width, false, Position...>>,
        unless<Layer::may_pad_output(more.height, stride.height),
               broken::output_padding_is_below_the_stride<Layer, In, more.height, stride.height, false, Position...>>,
        unless<Layer::may_pad_output(more.width, stride.width),
               broken::output_padding_is_below_the_stride<Layer, In, more.width, stride.width, false, Position...>>,
        unless<padding_exists(options.padding, Kernel, stride, options.dilation),
               broken::same_padding_keeps_the_image<Layer, In, false, Position...>>,
        unless<groups_divide(options.groups, In::channels, Out),
               broken::groups_divide_channels<Layer, In, false, Position...>>>;
  };
  template <class In, class... Position>
  using refusal = typename check<In, Position...>::broken_promise;
};

}  // namespace detail

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
