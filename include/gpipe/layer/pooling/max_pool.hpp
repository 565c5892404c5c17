#pragma once

#include <cstddef>
#include <cstdint>

#include <gpipe/layer/contract/bound.hpp>
#include <gpipe/layer/contract/operands.hpp>
#include <gpipe/layer/pooling/pool_options.hpp>

namespace gpipe {

/// The maximum of each window and channel: PyTorch's MaxPool2d. The first maximum has the gradient; NaN is a maximum.
/// Padding is never one. Backward keeps neither input nor output, but the maximum's place in its window, one byte each.
///
///     feature_map<T, C, H, W> to feature_map<T, C, H', W'>,  H' = (H + 2 p - window) / s + 1
///
///     max_pool<2>,  max_pool<3, pool_options{.stride = 2, .padding = 1}>,  max_pool<height_width{2, 1}>
template <height_width Window, pool_options Options = pool_options{}>
struct max_pool {
  static_assert(Window.height * Window.width <= 256, "gpipe: max_pool<Window>: a window has at most 256 pixels");

  static constexpr detail::short_name shown_name = detail::name_of_pool("max_pool", Window, Options);

  template <class In>
  struct on;

  template <detail::floating_map In>
  struct on<In> {
    using windows = detail::pooled<max_pool, In, Window, Options>;
    using output = typename windows::output;
    using T = typename In::value_type;
    using number = compute_type<T>;
    static constexpr int C = In::channels;
    static constexpr buffer extras[] = {{"places", output::size, dtype::uint8}};
    static constexpr std::int64_t seen = static_cast<std::int64_t>(output::size) * Window.height * Window.width;
    static constexpr work cost{.forward = seen,
                               .backward_input = seen,
                               .bytes = static_cast<std::int64_t>(sizeof(T) * (In::size + output::size) + output::size)};

    template <class Context, class A>
    static void forward(const Context& c, const A& a) {
      c.rows(a.samples() * static_cast<std::ptrdiff_t>(output::pixels), find{a.in(), a.out(), a.template extra<0>()});
    }
    template <class Context, class A>
    static void backward_input(const Context& c, const A& a) {
      if (!a.in_gradient()) return;
      c.rows(a.samples() * static_cast<std::ptrdiff_t>(In::pixels),
             return_to{a.out_gradient(), a.template extra<0>(), a.in_gradient()});
    }

    // Each pixel of the window once over all channels, which the compiler turns into vectors.
    struct find {
      const T* in;
      T* out;
      std::uint8_t* places;
      template <class Team>
      GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t pixel, const Team& team) const {
        const auto t = static_cast<int>(pixel / output::width % output::height), u = static_cast<int>(pixel % output::width);
        const auto down = windows::rows(t), across = windows::columns(u);
        const T* picture = in + pixel / static_cast<std::ptrdiff_t>(output::pixels) * static_cast<std::ptrdiff_t>(In::size);
        T* y = out + pixel * C;
        std::uint8_t* place = places + pixel * C;
        bool first = true;
        for (int i = down.from; i < down.to; ++i)
          for (int j = across.from; j < across.to; ++j) {
            const T* x = picture + (std::ptrdiff_t{i} * In::width + j) * C;
            const auto here = static_cast<std::uint8_t>((i - down.first) * Window.width + j - across.first);
            if (first) {
              team.each(C, [=](std::ptrdiff_t k) { y[k] = x[k], place[k] = here; });
            } else {
              team.each(C, [=](std::ptrdiff_t k) {
                const number value = x[k], best = y[k];
                const bool higher = value > best || value != value;
                y[k] = higher ? value : best;
                place[k] = higher ? here : place[k];
              });
            }
            first = false;
          }
      }
    };

    // A pixel gathers from the windows that see it, so that no two threads write to one place.
    struct return_to {
      const T* out_gradient;
      const std::uint8_t* places;
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
            const std::ptrdiff_t at = ((sample * output::height + t) * output::width + u) * C;
            const T* dy = out_gradient + at;
            const std::uint8_t* place = places + at;
            const auto here = static_cast<std::uint8_t>((i - windows::rows(t).first) * Window.width + j -
                                                        windows::columns(u).first);
            const bool alone = first;
            team.each(C, [=](std::ptrdiff_t k) {
              const number more = place[k] == here ? number(dy[k]) : number(0);
              dx[k] = alone ? more : dx[k] + more;
            });
            first = false;
          }
        if (first) team.each(C, [=](std::ptrdiff_t k) { dx[k] = number(0); });
      }
    };
  };
};

}  // namespace gpipe
