#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include <gpipe/core/numbers/multiply_add.hpp>
#include <gpipe/core/tensors/tensor.hpp>
#include <gpipe/layer/contract/bound.hpp>
#include <gpipe/layer/contract/channels.hpp>
#include <gpipe/layer/contract/operands.hpp>
#include <gpipe/layer/normalization/layer_norm.hpp>

namespace gpipe {

namespace broken {

template <class Layer, class Input, bool Holds, class... Position>
struct group_norm_has_groups {
  static_assert((holds<Holds, Position..., Layer, Input>),
                "gpipe: group_norm<Groups> has its groups alone, for the compiler reads the channels from the input; "
                "with an epsilon write group_norm_with<Groups, {.epsilon = 1e-3}>");
};

}  // namespace broken

namespace detail {

/// The kernels of `group_norm` for maps of one element type. They sum over pixels per channel, because channels are
/// side by side, and then combine the channels of a group:
///
///     forward    measure        mean and squares of each channel, over the pixels       a strip of channels
///                combine        mean and r of each channel's group                      a sample
///                normalize      y                                                       a strip
///     backward   add_up         sums of dy h and of dy of each channel                  a strip
///                combine_sums   means of g h and of g over each channel's group         a sample
///                differentiate  dx                                                      a strip
///                               weight and bias: the channels' sums, over the samples
template <class T>
struct group_norm_kernels {
  using value_type = T;
  using number = compute_type<T>;
  static constexpr keep keeps{.input = true};
  static constexpr std::size_t max_lanes = pixel_strips::max_lanes;

  struct numbers {
    pixel_strips strips;
    int groups;
    double epsilon;
  };

  template <class Context, class A>
  static void forward(const Context& c, const A& a) {
    const numbers& sizes = a.sizes();
    const channel_numbers found = statistics(a);
    sizes.strips.each_part(c, a.samples(), measure{a.in(), found});
    c.rows(a.samples(), combine{found, sizes});
    sizes.strips.each_part(c, a.samples(),
                           normalize{a.in(), found, a.template parameter<0>(), a.template parameter<1>(), a.out()});
  }
  template <class Context, class A>
  static void backward_input(const Context& c, const A& a) {
    if (!a.in_gradient()) return;
    const numbers& sizes = a.sizes();
    const channel_numbers means{a.template workspace<0, number>(), sizes.strips.channels};
    add_up_all(c, a);
    c.rows(a.samples(), combine_sums{sums(a), a.template parameter<0>(), means, sizes});
    sizes.strips.each_part(
        c, a.samples(),
        differentiate{a.in(), a.out_gradient(), statistics(a), means, a.template parameter<0>(), a.in_gradient()});
  }
  template <class Context, class A>
  static void backward_parameters(const Context& c, const A& a) {
    if (!a.in_gradient()) add_up_all(c, a);
    const int C = a.sizes().strips.channels;
    add_scale_gradients(c, a.samples(), C, of_samples{sums(a), 0}, a.template gradient<0>(), of_samples{sums(a), 1},
                        a.template gradient<1>());
  }

  /// Two numbers for each channel of each sample.
  struct channel_numbers {
    number* values;
    int channels;
    GPIPE_HOST_DEVICE number* operator()(std::ptrdiff_t sample, int component) const {
      return values + (2 * sample + component) * channels;
    }
  };
  /// The mean and the squares of each channel, and then the mean and r of its group.
  template <class A>
  static channel_numbers statistics(const A& a) {
    return {a.template extra<0, number>(), a.sizes().strips.channels};
  }
  /// The sums of dy h, and of dy.
  template <class A>
  static channel_numbers sums(const A& a) {
    return {a.template backward_extra<0, number>(), a.sizes().strips.channels};
  }
  template <class Context, class A>
  static void add_up_all(const Context& c, const A& a) {
    a.sizes().strips.each_part(c, a.samples(), add_up{a.in(), a.out_gradient(), statistics(a), sums(a)});
  }

  // Squares of distances from the channel's mean: no large squares are subtracted. Sums are in double.
  struct measure {
    const T* in;
    channel_numbers found;
    template <class Width, class Team>
    GPIPE_HOST_DEVICE void operator()(const pixel_strips& strips, const pixel_strips::strip& part, Width width,
                                      const Team& team) const {
      const std::ptrdiff_t C = strips.channels, pixels = strips.pixels;
      const T* x = in + part.element;
      number *mean_of = found(part.sample, 0) + part.first, *squares_of = found(part.sample, 1) + part.first;
      double mean[max_lanes], squares[max_lanes];
      team.each(width, [&](std::ptrdiff_t k) { mean[k] = squares[k] = 0; });
      for (std::ptrdiff_t pixel = 0; pixel < pixels; ++pixel)
        team.each(width, [=, &mean](std::ptrdiff_t k) { mean[k] += static_cast<double>(x[pixel * C + k]); });
      // Rounded as `combine` reads it, so that the squares are of distances from the same number.
      team.each(width, [&](std::ptrdiff_t k) {
        mean[k] = static_cast<double>(static_cast<number>(mean[k] / static_cast<double>(pixels)));
      });
      for (std::ptrdiff_t pixel = 0; pixel < pixels; ++pixel)
        team.each(width, [=, &mean, &squares](std::ptrdiff_t k) {
          const double off = static_cast<double>(x[pixel * C + k]) - mean[k];
          squares[k] = multiply_add(off, off, squares[k]);
        });
      team.each(width, [=, &mean, &squares](std::ptrdiff_t k) {
        mean_of[k] = static_cast<number>(mean[k]), squares_of[k] = static_cast<number>(squares[k]);
      });
    }
  };

  // Each channel of a group has the same number of pixels, so that the group's mean is the mean of the means.
  struct combine {
    channel_numbers found;
    numbers sizes;
    template <class Team>
    GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t sample, const Team& team) const {
      const int width = sizes.strips.channels / sizes.groups;
      const auto pixels = static_cast<double>(sizes.strips.pixels);
      for (int group = 0; group < sizes.groups; ++group) {
        number *mean = found(sample, 0) + group * width, *squares = found(sample, 1) + group * width;
        const double middle = team.sum(width, [=](std::ptrdiff_t k) { return static_cast<double>(mean[k]); }) /
                              static_cast<double>(width);
        const double total = team.sum(width, [=](std::ptrdiff_t k) {
          const double off = static_cast<double>(mean[k]) - middle;
          return multiply_add(pixels, off * off, static_cast<double>(squares[k]));
        });
        const double variance = total / (pixels * static_cast<double>(width));
        const auto r = static_cast<number>(1 / std::sqrt(variance + sizes.epsilon));
        team.each(width, [=](std::ptrdiff_t k) { mean[k] = static_cast<number>(middle), squares[k] = r; });
      }
    }
  };

  struct normalize {
    const T* in;
    channel_numbers found;
    const number *weight, *bias;
    T* out;
    template <class Width, class Team>
    GPIPE_HOST_DEVICE void operator()(const pixel_strips& strips, const pixel_strips::strip& part, Width width,
                                      const Team& team) const {
      const std::ptrdiff_t C = strips.channels, pixels = strips.pixels;
      const T* x = in + part.element;
      const number *mean = found(part.sample, 0) + part.first, *r = found(part.sample, 1) + part.first;
      const number *w = weight + part.first, *b = bias + part.first;
      T* y = out + part.element;
      for (std::ptrdiff_t pixel = 0; pixel < pixels; ++pixel)
        team.each(width, [=](std::ptrdiff_t k) {
          y[pixel * C + k] = multiply_add((x[pixel * C + k] - mean[k]) * r[k], w[k], b[k]);
        });
    }
  };

  struct add_up {
    const T *in, *out_gradient;
    channel_numbers found, sums;
    template <class Width, class Team>
    GPIPE_HOST_DEVICE void operator()(const pixel_strips& strips, const pixel_strips::strip& part, Width width,
                                      const Team& team) const {
      const std::ptrdiff_t C = strips.channels, pixels = strips.pixels;
      const T *x = in + part.element, *dy = out_gradient + part.element;
      const number *mean = found(part.sample, 0) + part.first, *r = found(part.sample, 1) + part.first;
      number *sums_h = sums(part.sample, 0) + part.first, *sums_one = sums(part.sample, 1) + part.first;
      double along_h[max_lanes], along_one[max_lanes];
      team.each(width, [&](std::ptrdiff_t k) { along_h[k] = along_one[k] = 0; });
      for (std::ptrdiff_t pixel = 0; pixel < pixels; ++pixel)
        team.each(width, [=, &along_h, &along_one](std::ptrdiff_t k) {
          const number d = dy[pixel * C + k];
          along_h[k] = add_product(along_h[k], d, (x[pixel * C + k] - mean[k]) * r[k]);
          along_one[k] += static_cast<double>(d);
        });
      team.each(width, [=, &along_h, &along_one](std::ptrdiff_t k) {
        sums_h[k] = static_cast<number>(along_h[k]), sums_one[k] = static_cast<number>(along_one[k]);
      });
    }
  };

  struct combine_sums {
    channel_numbers sums;
    const number* weight;
    channel_numbers means;
    numbers sizes;
    template <class Team>
    GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t sample, const Team& team) const {
      const int width = sizes.strips.channels / sizes.groups;
      const double elements = static_cast<double>(sizes.strips.pixels) * width;
      for (int component = 0; component < 2; ++component)
        for (int group = 0; group < sizes.groups; ++group) {
          const number *w = weight + group * width, *sum = sums(sample, component) + group * width;
          number* mean = means(sample, component) + group * width;
          const double total = team.sum(
              width, [=](std::ptrdiff_t k) { return static_cast<double>(w[k]) * static_cast<double>(sum[k]); });
          team.each(width, [=](std::ptrdiff_t k) { mean[k] = static_cast<number>(total / elements); });
        }
    }
  };

  struct differentiate {
    const T *in, *out_gradient;
    channel_numbers found, means;
    const number* weight;
    T* in_gradient;
    template <class Width, class Team>
    GPIPE_HOST_DEVICE void operator()(const pixel_strips& strips, const pixel_strips::strip& part, Width width,
                                      const Team& team) const {
      const std::ptrdiff_t C = strips.channels, pixels = strips.pixels;
      const T *x = in + part.element, *dy = out_gradient + part.element;
      const number *mean = found(part.sample, 0) + part.first, *r = found(part.sample, 1) + part.first;
      const number *mean_h = means(part.sample, 0) + part.first, *mean_one = means(part.sample, 1) + part.first;
      const number* w = weight + part.first;
      T* dx = in_gradient + part.element;
      for (std::ptrdiff_t pixel = 0; pixel < pixels; ++pixel)
        team.each(width, [=](std::ptrdiff_t k) {
          const std::ptrdiff_t i = pixel * C + k;
          // A rounded product, whose mean is `mean_one`: the gradient of a group of one element is 0.
          dx[i] = r[k] *
                  multiply_add((mean[k] - x[i]) * r[k], mean_h[k], rounded_product<number>(dy[i], w[k]) - mean_one[k]);
        });
    }
  };

  struct of_samples {
    channel_numbers sums;
    int component;
    GPIPE_HOST_DEVICE number operator()(std::ptrdiff_t sample, std::ptrdiff_t channel) const {
      return sums(sample, component)[channel];
    }
  };
};

template <class On, class In, int Groups, mean_and_variance Setting>
struct group_norm_layer : of_kind<On, group_norm_kernels<typename In::value_type>> {
  using output = In;
  using T = typename In::value_type;
  static constexpr int C = In::channels;
  static_assert(Groups >= 1 && C % Groups == 0,
                "gpipe: group_norm<Groups>: the number of groups must be at least 1 and divide the channels of the "
                "feature map");
  static constexpr auto elements = static_cast<std::int64_t>(In::size);
  static constexpr typename group_norm_layer::numbers sizes{
      {C, static_cast<std::ptrdiff_t>(In::pixels)}, Groups < 1 ? 1 : Groups, Setting.epsilon};

  static constexpr parameter parameters[] = {{"weight", {C}, initializer::ones()}, {"bias", {C}}};
  static constexpr dtype of_channels = dtype_of<compute_type<T>>;
  static constexpr buffer extras[] = {{"statistics", 2 * std::size_t{C}, of_channels}};
  static constexpr buffer backward_extras[] = {{"sums", 2 * std::size_t{C}, of_channels}};
  static constexpr buffer workspace[] = {{"means", 2 * std::size_t{C}, of_channels}};
  static constexpr work cost{.forward = 8 * elements,
                             .backward_input = 12 * elements,
                             .backward_parameters = 2 * C,
                             .bytes = static_cast<std::int64_t>(2 * sizeof(T)) * elements};
};

}  // namespace detail

/// Group normalization (Wu, He, 2018): PyTorch's GroupNorm. The channels of a feature map form `Groups` groups of
/// neighbours; a group of a sample is normalized over its channels and all pixels:
///
///     h = (x - mean) r,  r = 1 / sqrt(variance + epsilon),  y = weight h + bias
///     dx = r (g - mean of g - h mean of g h),  g = dy weight
///
/// Weight {C} and bias {C}, as in batch_norm. The variance is the biased one. Samples do not depend on each other, and
/// evaluation does the same as training. One group is a layer normalization of the whole map.
template <int Groups, mean_and_variance Setting = mean_and_variance{}>
struct group_norm_with {
  static_assert(Setting.epsilon > 0, "gpipe: group_norm_with<Groups, {.epsilon}>: epsilon must be above 0");

  template <class In>
  struct on;

  template <detail::floating_map In>
  struct on<In> : detail::group_norm_layer<on<In>, In, Groups, Setting> {};
};

/// With an epsilon of 1e-5, as in PyTorch.
template <int Groups, auto... More>
struct group_norm : group_norm_with<Groups> {
  template <class In, class... Position>
  using refusal =
      detail::unless<sizeof...(More) == 0, broken::group_norm_has_groups<group_norm, In, false, Position...>>;
};

/// PyTorch's InstanceNorm2d with affine = True: each channel is one group.
template <mean_and_variance Setting = mean_and_variance{}>
struct affine_instance_norm {
  static_assert(Setting.epsilon > 0, "gpipe: affine_instance_norm<{.epsilon}>: epsilon must be above 0");

  template <class In>
  struct on;

  template <detail::floating_map In>
  struct on<In> : detail::group_norm_layer<on<In>, In, In::channels, Setting> {};
};

}  // namespace gpipe
