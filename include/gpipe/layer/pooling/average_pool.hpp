#pragma once

#include <cstddef>
#include <cstdint>

#include <gpipe/layer/contract/bound.hpp>
#include <gpipe/layer/contract/operands.hpp>
#include <gpipe/layer/pooling/pool_options.hpp>

namespace gpipe {

/// The mean of each window and channel: PyTorch's AvgPool2d. Nothing is kept for backward.
///
///     feature_map<T, C, H, W> to feature_map<T, C, H', W'>,  H' = (H + 2 p - window) / s + 1
///
///     average_pool<2>,  average_pool<3, pool_options{.stride = 1, .padding = 1, .count_padding = false}>
///
/// Sums of bf16 are rounded after each pixel of the window.
template <height_width Window, pool_options Options = pool_options{}>
struct average_pool {
  static constexpr detail::short_name shown_name = detail::name_of_pool("average_pool", Window, Options);

  template <class In>
  struct on;

  template <detail::floating_map In>
  struct on<In> {
    using windows = detail::pooled<average_pool, In, Window, Options>;
    using output = typename windows::output;
    using T = typename In::value_type;
    using number = compute_type<T>;
    static constexpr int C = In::channels;
    static constexpr std::int64_t seen = static_cast<std::int64_t>(output::size) * Window.height * Window.width;
    static constexpr work cost{.forward = seen,
                               .backward_input = seen,
                               .bytes = static_cast<std::int64_t>(sizeof(T) * (In::size + output::size))};

    template <class Context, class A>
    static void forward(const Context& c, const A& a) {
      c.rows(a.samples() * static_cast<std::ptrdiff_t>(output::pixels), mean{a.in(), a.out()});
    }
    template <class Context, class A>
    static void backward_input(const Context& c, const A& a) {
      if (a.in_gradient())
        c.rows(a.samples() * static_cast<std::ptrdiff_t>(In::pixels), spread{a.out_gradient(), a.in_gradient()});
    }

    /// The weight of a pixel in the mean of the window at (t, u).
    GPIPE_HOST_DEVICE static number weight(int t, int u) {
      if constexpr (Options.count_padding) return number(1) / number(Window.height * Window.width);
      const auto down = windows::rows(t), across = windows::columns(u);
      return number(1) / number((down.to - down.from) * (across.to - across.from));
    }

    struct mean {
      const T* in;
      T* out;
      template <class Team>
      GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t pixel, const Team& team) const {
        const auto t = static_cast<int>(pixel / output::width % output::height), u = static_cast<int>(pixel % output::width);
        const auto down = windows::rows(t), across = windows::columns(u);
        const T* picture = in + pixel / static_cast<std::ptrdiff_t>(output::pixels) * static_cast<std::ptrdiff_t>(In::size);
        T* y = out + pixel * C;
        const number by = weight(t, u);
        bool first = true;
        for (int i = down.from; i < down.to; ++i)
          for (int j = across.from; j < across.to; ++j) {
            const T* x = picture + (std::ptrdiff_t{i} * In::width + j) * C;
            const bool alone = first;
            team.each(C, [=](std::ptrdiff_t k) { y[k] = alone ? by * x[k] : y[k] + by * x[k]; });
            first = false;
          }
      }
    };

    struct spread {
      const T* out_gradient;
      T* in_gradient;
      template <class Team>
      GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t pixel, const Team& team) const {
        const auto i = static_cast<int>(pixel / In::width % In::height), j = static_cast<int>(pixel % In::width);
        const auto down = windows::rows_that_see(i), across = windows::columns_that_see(j);
        const std::ptrdiff_t sample = pixel / static_cast<std::ptrdiff_t>(In::pixels);
        T* dx = in_gradient + pixel * C;
        bool first = true;
        for (int t = down.from; t < down.to; ++t)
          for (int u = across.from; u < across.to; ++u) {
            const T* dy = out_gradient + ((sample * output::height + t) * output::width + u) * C;
            const number by = weight(t, u);
            const bool alone = first;
            team.each(C, [=](std::ptrdiff_t k) { dx[k] = alone ? by * dy[k] : dx[k] + by * dy[k]; });
            first = false;
          }
        if (first) team.each(C, [=](std::ptrdiff_t k) { dx[k] = number(0); });
      }
    };
  };
};

}  // namespace gpipe
