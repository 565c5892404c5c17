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

namespace detail {

template <class T>
struct instance_norm_kernels {
  using value_type = T;
  using number = compute_type<T>;
  static constexpr keep keeps{.output = true};

  struct numbers {
    pixel_strips strips;
    double epsilon;
  };

  template <class Context, class A>
  static void forward(const Context& c, const A& a) {
    const numbers& sizes = a.sizes();
    sizes.strips.each_part(c, a.samples(), normalize{a.in(), a.out(), a.template extra<0, number>(), sizes.epsilon});
  }
  template <class Context, class A>
  static void backward_input(const Context& c, const A& a) {
    if (a.in_gradient())
      a.sizes().strips.each_part(
          c, a.samples(), differentiate{a.out(), a.out_gradient(), a.template extra<0, number>(), a.in_gradient()});
  }

  // Sums are in double.
  struct normalize {
    const T* in;
    T* out;
    number* inverse;
    double epsilon;
    template <class Width, class Team>
    GPIPE_HOST_DEVICE void operator()(const pixel_strips& strips, const pixel_strips::strip& part, Width width,
                                      const Team& team) const {
      const int C = strips.channels;
      const std::ptrdiff_t pixels = strips.pixels;
      const T* x = in + part.element;
      T* y = out + part.element;
      number* r = inverse + part.sample * C + part.first;
      double mean[std::size_t{pixel_strips::max_lanes}], squares[std::size_t{pixel_strips::max_lanes}];
      team.each(width, [&](std::ptrdiff_t k) { mean[k] = squares[k] = 0; });
      for (std::ptrdiff_t pixel = 0; pixel < pixels; ++pixel)
        team.each(width, [=, &mean](std::ptrdiff_t k) { mean[k] += static_cast<double>(x[pixel * C + k]); });
      team.each(width, [&](std::ptrdiff_t k) { mean[k] /= static_cast<double>(pixels); });
      for (std::ptrdiff_t pixel = 0; pixel < pixels; ++pixel)
        team.each(width, [=, &mean, &squares](std::ptrdiff_t k) {
          const double off = static_cast<double>(x[pixel * C + k]) - mean[k];
          squares[k] = multiply_add(off, off, squares[k]);
        });
      const double eps = epsilon;
      team.each(width, [=, &squares](std::ptrdiff_t k) {
        r[k] = static_cast<number>(1 / std::sqrt(squares[k] / static_cast<double>(pixels) + eps));
      });
      for (std::ptrdiff_t pixel = 0; pixel < pixels; ++pixel)
        team.each(width, [=, &mean](std::ptrdiff_t k) {
          y[pixel * C + k] = (x[pixel * C + k] - static_cast<number>(mean[k])) * r[k];
        });
    }
  };

  struct differentiate {
    const T *out, *out_gradient;
    const number* inverse;
    T* in_gradient;
    template <class Width, class Team>
    GPIPE_HOST_DEVICE void operator()(const pixel_strips& strips, const pixel_strips::strip& part, Width width,
                                      const Team& team) const {
      const int C = strips.channels;
      const std::ptrdiff_t pixels = strips.pixels;
      const T *y = out + part.element, *dy = out_gradient + part.element;
      T* dx = in_gradient + part.element;
      const number* r = inverse + part.sample * C + part.first;
      double along_one[std::size_t{pixel_strips::max_lanes}], along_y[std::size_t{pixel_strips::max_lanes}];
      team.each(width, [&](std::ptrdiff_t k) { along_one[k] = along_y[k] = 0; });
      for (std::ptrdiff_t pixel = 0; pixel < pixels; ++pixel)
        team.each(width, [=, &along_one, &along_y](std::ptrdiff_t k) {
          const auto d = static_cast<double>(dy[pixel * C + k]);
          along_one[k] += d;
          along_y[k] = multiply_add(d, static_cast<double>(y[pixel * C + k]), along_y[k]);
        });
      team.each(width, [&](std::ptrdiff_t k) {
        along_one[k] /= static_cast<double>(pixels), along_y[k] /= static_cast<double>(pixels);
      });
      for (std::ptrdiff_t pixel = 0; pixel < pixels; ++pixel)
        team.each(width, [=, &along_one, &along_y](std::ptrdiff_t k) {
          const std::ptrdiff_t i = pixel * C + k;
          dx[i] = r[k] * multiply_add<number>(-y[i], static_cast<number>(along_y[k]),
                                              dy[i] - static_cast<number>(along_one[k]));
        });
    }
  };
};

}  // namespace detail

/// Normalizes each channel of each sample: PyTorch's InstanceNorm2d without weights and averages.
///
///     y = (x - mean) r,  r = 1 / sqrt(variance + epsilon), over the pixels of one channel of one sample
///     dx = r (dy - mean of dy - y mean of dy y)
///
/// The variance is the biased one. Evaluation does the same as training. Backward reads the output and r.
/// `affine_instance_norm`, in group_norm.hpp, has a weight and a bias.
template <mean_and_variance Setting = mean_and_variance{}>
struct instance_norm_with {
  static_assert(Setting.epsilon > 0, "gpipe: instance_norm: epsilon, or Millionths / 1e6, must be above 0");

  template <class In>
  struct on;

  template <detail::floating_map In>
  struct on<In> : of_kind<on<In>, detail::instance_norm_kernels<typename In::value_type>> {
    using output = In;
    using T = typename In::value_type;
    static constexpr int C = In::channels;
    static constexpr auto elements = static_cast<std::int64_t>(In::size);
    static constexpr typename on::numbers sizes{{C, static_cast<std::ptrdiff_t>(In::pixels)}, Setting.epsilon};
    static constexpr buffer extras[] = {{"inverse", std::size_t{C}, dtype_of<compute_type<T>>}};
    static constexpr work cost{.forward = 8 * elements,
                               .backward_input = 10 * elements,
                               .bytes = static_cast<std::int64_t>(2 * sizeof(T)) * elements};
  };
};

/// The same with epsilon in whole numbers: `Millionths` / 1e6.
template <int Millionths = 10>
struct instance_norm : instance_norm_with<mean_and_variance{.epsilon = Millionths * 1e-6}> {};

}  // namespace gpipe
