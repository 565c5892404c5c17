#pragma once

#include <cstddef>
#include <cstdint>

#include <gpipe/core/config.hpp>
#include <gpipe/layer/contract/bound.hpp>
#include <gpipe/layer/contract/operands.hpp>
#include <gpipe/layer/contract/row_parts.hpp>
#include <gpipe/layer/convolution/conv_options.hpp>

namespace gpipe {

/// The transpose of a convolution, which makes a picture larger: PyTorch's ConvTranspose2d, with its first values. It
/// is the gradient of the input of a convolution from Out to C channels:
///
///     feature_map<T, C, H, W> to feature_map<T, Out, H', W'>,  H' = (H - 1) s - 2 p + d (KH - 1) + 1 + output padding
///     weight {KH, KW, Out / groups, C}: PyTorch's {C, Out / groups, KH, KW} with its extents in another order; bias
///     {Out}
///
///     conv_transpose2d<64, 2, conv_options{.stride = 2}>           twice as high and as wide
template <int Out, height_width Kernel, conv_options Options = conv_options{}>
struct conv_transpose2d {
  static_assert(Out > 0,
                "gpipe: conv_transpose2d<Out, Kernel>: Out, the number of output channels, must be at least 1");

  static constexpr detail::short_name shown_name =
      detail::name_of_convolution("conv_transpose2d", Out, Kernel, Options);

  static constexpr height_width padding = detail::pixels_of_padding(Options.padding, Kernel, Options.dilation);
  static constexpr int extent(int in, int kernel, int stride, int pads, int dilation, int more) {
    return (in - 1) * stride - 2 * pads + dilation * (kernel - 1) + 1 + more;
  }
  static constexpr int height_of(int in) {
    return extent(in, Kernel.height, Options.stride.height, padding.height, Options.dilation.height,
                  Options.output_padding.height);
  }
  static constexpr int width_of(int in) {
    return extent(in, Kernel.width, Options.stride.width, padding.width, Options.dilation.width,
                  Options.output_padding.width);
  }
  static constexpr bool fits(int kernel, int stride, int pads, int dilation, int out) {
    return kernel > 0 && stride > 0 && pads >= 0 && dilation > 0 && out > 0;
  }
  static constexpr bool below(int more, int stride) { return 0 <= more && more < stride; }

  template <class In, class... Position>
  struct check {
    using broken_promise = void;  // no feature map: see `on`
  };
  template <detail::floating_map In, class... Position>
  struct check<In, Position...> {
    static constexpr int height = height_of(In::height), width = width_of(In::width);
    using broken_promise = detail::first_broken<
        detail::unless<fits(Kernel.height, Options.stride.height, padding.height, Options.dilation.height, height),
                       broken::window_is_in_the_picture<conv_transpose2d, In, Kernel.height, height, false,
                                                        Position...>>,
        detail::unless<fits(Kernel.width, Options.stride.width, padding.width, Options.dilation.width, width),
                       broken::window_is_in_the_picture<conv_transpose2d, In, Kernel.width, width, false, Position...>>,
        detail::unless<below(Options.output_padding.height, Options.stride.height),
                       broken::output_padding_is_below_the_stride<conv_transpose2d, In, Options.output_padding.height,
                                                                  Options.stride.height, false, Position...>>,
        detail::unless<below(Options.output_padding.width, Options.stride.width),
                       broken::output_padding_is_below_the_stride<conv_transpose2d, In, Options.output_padding.width,
                                                                  Options.stride.width, false, Position...>>,
        detail::unless<detail::padding_exists(Options.padding, Kernel, Options.stride, Options.dilation),
                       broken::same_padding_keeps_the_picture<conv_transpose2d, In, false, Position...>>,
        detail::unless<detail::groups_divide(Options.groups, In::channels, Out),
                       broken::groups_divide_channels<conv_transpose2d, In, false, Position...>>>;
  };
  template <class In, class... Position>
  using refusal = typename check<In, Position...>::broken_promise;

  template <class In>
  struct on;

  template <detail::floating_map In>
  struct on<In>
      : detail::convolution_parameters<Kernel.height, Kernel.width, detail::of_group(Out, Options.groups), In::channels,
                                       Kernel.height * Kernel.width * detail::of_group(Out, Options.groups),
                                       Options.bias, Out> {
    using layer = conv_transpose2d;
    using T = typename In::value_type;
    using number = compute_type<T>;
    static_assert(detail::accepted<refusal<In>>);
    static constexpr height_width padding = conv_transpose2d::padding;
    static constexpr int height = height_of(In::height), width = width_of(In::width);
    using output = feature_map<T, Out, height, width>;

    /// Of the convolution from our output to our input.
    static constexpr convolution_shape shape_of(int samples) {
      return {samples,
              Out,
              height,
              width,
              In::channels,
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
    static constexpr std::int64_t product = 2 * static_cast<std::int64_t>(packed * In::pixels);
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
      if (a.refreshes_for_forward()) c.pack_convolution_backward(shape_of(1), weight, a.template derived<0>());
      if (a.refreshes_for_backward_input()) c.pack_convolution(shape_of(1), weight, a.template derived<1>());
    }
    template <class C, class A>
    static void forward(const C& c, const A& a) {
      const T* weight = a.template derived<0>();
      c.convolve_backward_input(shape_of(a.samples()), a.in(), weight, a.out());
      if constexpr (Options.bias)
        c.rows(a.samples() * static_cast<std::ptrdiff_t>(output::pixels), shift{a.template parameter<1>(), a.out()});
    }
    template <class C, class A>
    static void backward_input(const C& c, const A& a) {
      const T* weight = a.template derived<1>();
      const number* none = nullptr;
      if (T* into = a.in_gradient()) c.convolve(shape_of(a.samples()), a.out_gradient(), weight, none, into);
    }
    template <class C, class A>
    static void backward_parameters(const C& c, const A& a) {
      c.convolve_backward_weight(shape_of(a.samples()), a.out_gradient(), a.in(), a.template gradient<0>());
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
      c.convolve_backward_weight(shape_of(all.samples()), dy, in, all[0].template gradient<0>());
      if constexpr (Options.bias)
        for (int i = 0; i < micro_batches; ++i)
          c.columns(all[i].samples() * static_cast<std::ptrdiff_t>(output::pixels), Out,
                    detail::pixel_rows<T>{dy.part[i], Out}, all[i].template gradient<1>());
    }

    struct shift {
      const number* bias;
      T* out;
      template <class Team>
      GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t pixel, const Team& team) const {
        T* y = out + pixel * Out;
        const number* b = bias;
        team.each(Out, [=](std::ptrdiff_t k) { y[k] = y[k] + b[k]; });
      }
    };
  };
};

}  // namespace gpipe
