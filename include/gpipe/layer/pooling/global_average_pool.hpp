#pragma once

#include <cstddef>
#include <cstdint>

#include <gpipe/core/tensors/tensor.hpp>
#include <gpipe/layer/contract/bound.hpp>
#include <gpipe/layer/contract/channels.hpp>
#include <gpipe/layer/contract/operands.hpp>

namespace gpipe {

/// The mean of each channel over all pixels: feature_map<T, C, H, W> becomes tensor<T, C>. PyTorch's
/// AdaptiveAvgPool2d(1) with Flatten.
struct global_average_pool {
  template <class T>
  struct kind_for {
    using value_type = T;
    using number = compute_type<T>;
    using numbers = detail::pixel_strips;

    template <class Context, class A>
    static void forward(const Context& c, const A& a) {
      a.sizes().each_part(c, a.samples(), mean{a.in(), a.out()});
    }
    template <class Context, class A>
    static void backward_input(const Context& c, const A& a) {
      if (a.in_gradient()) a.sizes().each_part(c, a.samples(), spread{a.out_gradient(), a.in_gradient()});
    }

    struct mean {
      const T* in;
      T* out;
      template <class Width, class Team>
      GPIPE_HOST_DEVICE void operator()(const detail::pixel_strips& strips, const detail::pixel_strips::strip& part,
                                        Width width, const Team& team) const {
        const std::ptrdiff_t pixels = strips.pixels;
        const T* x = in + part.element;
        T* y = out + part.sample * strips.channels + part.first;
        number sum[std::size_t{detail::pixel_strips::max_lanes}];
        team.each(width, [&](std::ptrdiff_t k) { sum[k] = 0; });
        for (std::ptrdiff_t pixel = 0; pixel < pixels; ++pixel, x += strips.channels)
          team.each(width, [=, &sum](std::ptrdiff_t k) { sum[k] += x[k]; });
        team.each(width, [=, &sum](std::ptrdiff_t k) { y[k] = sum[k] / number(pixels); });
      }
    };

    struct spread {
      const T* out_gradient;
      T* in_gradient;
      template <class Width, class Team>
      GPIPE_HOST_DEVICE void operator()(const detail::pixel_strips& strips, const detail::pixel_strips::strip& part,
                                        Width width, const Team& team) const {
        const std::ptrdiff_t pixels = strips.pixels;
        const T* dy = out_gradient + part.sample * strips.channels + part.first;
        T* dx = in_gradient + part.element;
        T share[std::size_t{detail::pixel_strips::max_lanes}];
        team.each(width, [=, &share](std::ptrdiff_t k) { share[k] = dy[k] / number(pixels); });
        for (std::ptrdiff_t pixel = 0; pixel < pixels; ++pixel, dx += strips.channels)
          team.each(width, [=, &share](std::ptrdiff_t k) { dx[k] = share[k]; });
      }
    };
  };

  template <class In>
  struct on;

  template <detail::floating_map In>
  struct on<In> : of_kind<on<In>, kind_for<typename In::value_type>> {
    using T = typename In::value_type;
    using output = tensor<T, In::channels>;
    static constexpr detail::pixel_strips sizes{In::channels, static_cast<std::ptrdiff_t>(In::pixels)};
    static constexpr work cost{.forward = static_cast<std::int64_t>(In::size),
                               .backward_input = static_cast<std::int64_t>(In::size),
                               .bytes = static_cast<std::int64_t>(sizeof(T) * (In::size + output::size))};
  };
};

}  // namespace gpipe
