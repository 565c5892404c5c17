#pragma once

#include <cstddef>
#include <cstdint>

#include <gpipe/core/tensors/feature_map.hpp>
#include <gpipe/layer/contract/bound.hpp>
#include <gpipe/layer/contract/channels.hpp>
#include <gpipe/layer/contract/operands.hpp>

namespace gpipe {

/// The mean of each channel over all pixels: feature_map<T, C, H, W> becomes tensor<T, C>. PyTorch's
/// AdaptiveAvgPool2d(1) with Flatten.
struct global_average_pool {
  template <class In>
  struct on;

  template <detail::floating_map In>
  struct on<In> {
    using T = typename In::value_type;
    using number = compute_type<T>;
    using output = tensor<T, In::channels>;
    static constexpr int C = In::channels, lanes = detail::lanes_for(C), strips = (C + lanes - 1) / lanes;
    static constexpr auto pixels = static_cast<std::ptrdiff_t>(In::pixels);
    static constexpr work cost{.forward = static_cast<std::int64_t>(In::size),
                               .backward_input = static_cast<std::int64_t>(In::size),
                               .bytes = static_cast<std::int64_t>(sizeof(T) * (In::size + output::size))};

    template <class Context, class A>
    static void forward(const Context& c, const A& a) {
      c.rows(std::ptrdiff_t{a.samples()} * strips, mean{a.in(), a.out()});
    }
    template <class Context, class A>
    static void backward_input(const Context& c, const A& a) {
      if (a.in_gradient()) c.rows(a.samples() * pixels, spread{a.out_gradient(), a.in_gradient()});
    }

    // A row is up to 256 channels of a sample, side by side in each pixel.
    struct mean {
      const T* in;
      T* out;
      template <class Team>
      GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t row, const Team& team) const {
        const std::ptrdiff_t sample = row / strips, first = row % strips * lanes,
                             width = C - first < lanes ? C - first : lanes;
        const T* x = in + sample * pixels * C + first;
        T* y = out + sample * C + first;
        number sum[std::size_t{lanes}];
        team.each(width, [&](std::ptrdiff_t k) { sum[k] = 0; });
        for (std::ptrdiff_t pixel = 0; pixel < pixels; ++pixel, x += C)
          team.each(width, [=, &sum](std::ptrdiff_t k) { sum[k] += x[k]; });
        team.each(width, [=, &sum](std::ptrdiff_t k) { y[k] = sum[k] / number(pixels); });
      }
    };

    struct spread {
      const T* out_gradient;
      T* in_gradient;
      template <class Team>
      GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t pixel, const Team& team) const {
        const T* dy = out_gradient + pixel / pixels * C;
        T* dx = in_gradient + pixel * C;
        team.each(C, [=](std::ptrdiff_t k) { dx[k] = dy[k] / number(pixels); });
      }
    };
  };
};

}  // namespace gpipe
