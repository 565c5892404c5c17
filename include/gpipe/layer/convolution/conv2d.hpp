#pragma once

#include <cstddef>
#include <cstdint>

#include <gpipe/core/config.hpp>
#include <gpipe/layer/contract/bound.hpp>
#include <gpipe/layer/contract/operands.hpp>
#include <gpipe/layer/contract/row_parts.hpp>
#include <gpipe/layer/convolution/conv_options.hpp>

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

  template <detail::floating_map In>
  struct on<In>
      : detail::convolution_parameters<Kernel.height, Kernel.width, detail::of_group(In::channels, Options.groups), Out,
                                       Kernel.height * Kernel.width * detail::of_group(In::channels, Options.groups),
                                       Options.bias, Out> {
    using layer = conv2d;
    using T = typename In::value_type;
    using number = compute_type<T>;
    static_assert(detail::accepted<refusal<In>>);
    static constexpr height_width padding = conv2d::padding;
    using down = rows_of<In>;
    using across = columns_of<In>;
    using output = feature_map<T, Out, down::count, across::count>;

    static constexpr convolution_shape shape_of(int samples) {
      return {samples,
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

    static constexpr std::size_t packed = convolution_packed_size(shape_of(1));
    static constexpr buffer derived[] = {{"forward", packed, dtype_of<T>}, {"backward", packed, dtype_of<T>}};
    static constexpr keep keeps{.input = true};
    static constexpr std::int64_t product = 2 * static_cast<std::int64_t>(packed * output::pixels);
    static constexpr std::int64_t sums = Options.bias ? static_cast<std::int64_t>(output::size) : 0;
    static constexpr work cost{.forward = product + sums,
                               .backward_input = product,
                               .backward_parameters = product + sums,
                               .bytes = static_cast<std::int64_t>(sizeof(T) * (In::size + output::size))};

    template <class C>
    static void prepare(const C& c, int samples) {
      c.template prepare_convolution<T>(shape_of(samples));
    }
    template <class C, class A>
    static void refresh(const C& c, const A& a) noexcept {
      const number* weight = a.template parameter<0>();
      if (a.refreshes_for_forward()) c.pack_convolution(shape_of(1), weight, a.template derived<0>());
      if (a.refreshes_for_backward_input()) c.pack_convolution_backward(shape_of(1), weight, a.template derived<1>());
    }
    template <class C, class A>
    static void forward(const C& c, const A& a) {
      const number* bias = nullptr;
      if constexpr (Options.bias) bias = a.template parameter<1>();
      const T* weight = a.template derived<0>();
      c.convolve(shape_of(a.samples()), a.in(), weight, bias, a.out());
    }
    template <class C, class A>
    static void backward_input(const C& c, const A& a) {
      const T* weight = a.template derived<1>();
      if (T* into = a.in_gradient()) c.convolve_backward_input(shape_of(a.samples()), a.out_gradient(), weight, into);
    }
    template <class C, class A>
    static void backward_parameters(const C& c, const A& a) {
      c.convolve_backward_weight(shape_of(a.samples()), a.in(), a.out_gradient(), a.template gradient<0>());
      if constexpr (Options.bias)
        c.columns(a.samples() * static_cast<std::ptrdiff_t>(output::pixels), Out,
                  detail::pixel_rows<T>{a.out_gradient(), Out}, a.template gradient<1>());
    }

    /// The same for several micro-batches, with the same bits: dW is read and written less often.
    template <class C, class A>
    requires requires(const C& c, row_parts<T> in, number* out) {
      c.convolve_backward_weight(shape_of(1), in, in, out);
    }
    static void backward_parameters(const C& c, const A& all, int micro_batches) {
      row_parts<T> in{{}, all[0].samples()}, dy = in;  // a row is a sample
      for (int i = 0; i < micro_batches; ++i) {
        in.part[i] = all[i].in();
        dy.part[i] = all[i].out_gradient();
      }
      c.convolve_backward_weight(shape_of(all.samples()), in, dy, all[0].template gradient<0>());
      if constexpr (Options.bias)
        for (int i = 0; i < micro_batches; ++i)
          c.columns(all[i].samples() * static_cast<std::ptrdiff_t>(output::pixels), Out,
                    detail::pixel_rows<T>{dy.part[i], Out}, all[i].template gradient<1>());
    }
  };
};

}  // namespace gpipe
