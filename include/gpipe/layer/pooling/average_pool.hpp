#pragma once

#include <cstddef>
#include <cstdint>

#include <gpipe/layer/contract/bound.hpp>
#include <gpipe/layer/contract/operands.hpp>
#include <gpipe/layer/pooling/pool_options.hpp>

namespace gpipe {

namespace detail {

template <class T, height_width Window>
struct average_pool_kernels {
  using value_type = T;
  using number = compute_type<T>;
  using windows = pool_windows<Window>;
  using numbers = windows;

  template <class Context, class A>
  static void forward(const Context& c, const A& a) {
    c.rows(std::ptrdiff_t{a.samples()} * a.sizes().out_height, mean{a.in(), a.out(), a.sizes()});
  }
  template <class Context, class A>
  static void backward_input(const Context& c, const A& a) {
    if (a.in_gradient())
      c.rows(std::ptrdiff_t{a.samples()} * a.sizes().in_height, spread{a.out_gradient(), a.in_gradient(), a.sizes()});
  }

  /// The weight of a pixel in the mean of the window at (t, u).
  GPIPE_HOST_DEVICE static number weight(const windows& of, int t, int u) {
    if (of.count_padding) return number(1) / number(Window.height * Window.width);
    const auto down = of.rows(t), across = of.columns(u);
    return number(1) / number((down.to - down.from) * (across.to - across.from));
  }

  // A team has a row of outputs, most of which are long vectors, as in `max_pool`.
  struct mean {
    const T* in;
    T* out;
    windows of;
    template <class Team>
    GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t row, const Team& team) const {
      const std::ptrdiff_t C = of.channels;
      const auto t = static_cast<int>(row % of.out_height);
      const auto down = of.rows(t);
      const auto whole = of.whole_windows();
      const T* picture = in + row / of.out_height * of.in_size();
      T* y = out + row * of.out_width * C;
      for (int u = 0; u < whole.from; ++u) at_border(team, picture, t, u, y + u * C);
      for (int u = whole.to; u < of.out_width; ++u) at_border(team, picture, t, u, y + u * C);
      const bool joined = of.overlap_by_pixels();
      for (int u = whole.from; u < whole.to; u += joined ? whole.to - whole.from : 1) {
        const std::ptrdiff_t width = std::ptrdiff_t{joined ? whole.to - whole.from : 1} * C;
        const T* x = picture + (std::ptrdiff_t{down.from} * of.in_width + of.columns(u).first) * C;
        const number by = weight(of, t, u);
        if (down.to - down.from == Window.height) {
          add_rows<Window.height, true>(team, width, x, by, y + u * C);
        } else {
          add_rows<1, true>(team, width, x, by, y + u * C);
          for (int i = down.from + 1; i < down.to; ++i)
            add_rows<1, false>(team, width, x += std::ptrdiff_t{of.in_width} * C, by, y + u * C);
        }
      }
    }

    // Adds `Rows` rows of the windows to y, which begins with them or has others already.
    template <int Rows, bool Begins, class Team>
    GPIPE_HOST_DEVICE void add_rows(const Team& team, std::ptrdiff_t width, const T* x, number by, T* y) const {
      const std::ptrdiff_t C = of.channels, line = of.in_width * C;
      team.each(width, [=](std::ptrdiff_t k) {
        number sum = 0;
        unrolled<Rows * Window.width>([&](int p) { sum += x[p / Window.width * line + p % Window.width * C + k]; });
        y[k] = Begins ? by * sum : y[k] + by * sum;
      });
    }

    template <class Team>
    GPIPE_HOST_DEVICE void at_border(const Team& team, const T* picture, int t, int u, T* y) const {
      const auto down = of.rows(t), across = of.columns(u);
      const number by = weight(of, t, u);
      const auto at = of.template pixels_of<T>(picture, down, across);
      team.each(of.channels, [=](std::ptrdiff_t k) {
        number sum = 0;
        unrolled<at.count>([&](int p) {
          const number value = at.pixel[p][k];
          sum += at.seen[p] ? value : number(0);
        });
        y[k] = by * sum;
      });
    }
  };

  struct spread {
    const T* out_gradient;
    T* in_gradient;
    windows of;

    /// The inputs that `Window.width` windows of equal weight see.
    GPIPE_HOST_DEVICE constexpr auto evenly_seen() const {
      auto inside = of.fully_seen();
      const auto whole = of.whole_windows();
      if (of.count_padding || inside.from == inside.to) return inside;
      inside.from = whole.from - of.padding.width + Window.width - 1;
      inside.to = whole.to - of.padding.width;
      if (inside.to <= inside.from) inside.from = inside.to = 0;
      return inside;
    }

    template <class Team>
    GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t row, const Team& team) const {
      const std::ptrdiff_t C = of.channels;
      const auto i = static_cast<int>(row % of.in_height);
      const auto down = of.rows_that_see(i);
      const auto inside = evenly_seen();
      const T* picture = out_gradient + row / of.in_height * of.out_size();
      T* dx = in_gradient + row * of.in_width * C;
      for (int j = 0; j < inside.from; ++j) at_border(team, picture, down, j, dx + j * C);
      for (int j = inside.to; j < of.in_width; ++j) at_border(team, picture, down, j, dx + j * C);
      if (inside.from != inside.to) {
        const std::ptrdiff_t width = std::ptrdiff_t{inside.to - inside.from} * C;
        T* into = dx + inside.from * C;
        if (down.from >= down.to) team.each(width, [=](std::ptrdiff_t k) { into[k] = number(0); });
        for (int t = down.from; t < down.to; ++t) {
          const T* dy = picture + (std::ptrdiff_t{t} * of.out_width + inside.from + of.padding.width) * C;
          const number by = weight(of, t, inside.from + of.padding.width);
          const bool begins = t == down.from;
          team.each(width, [=](std::ptrdiff_t k) {
            number sum = 0;
            unrolled<Window.width>([&](int u) { sum += dy[k - (Window.width - 1 - u) * C]; });
            into[k] = begins ? by * sum : into[k] + by * sum;
          });
        }
      }
    }

    template <class Team>
    GPIPE_HOST_DEVICE void at_border(const Team& team, const T* picture, typename windows::span down, int j,
                                     T* dx) const {
      const std::ptrdiff_t C = of.channels;
      const auto across = of.columns_that_see(j);
      if (down.from >= down.to || across.from >= across.to) team.each(C, [=](std::ptrdiff_t k) { dx[k] = number(0); });
      for (int t = down.from; t < down.to; ++t)
        for (int u = across.from; u < across.to; ++u) {
          const T* dy = picture + (std::ptrdiff_t{t} * of.out_width + u) * C;
          const number by = weight(of, t, u);
          if (t == down.from && u == across.from) team.each(C, [=](std::ptrdiff_t k) { dx[k] = by * dy[k]; });
          else team.each(C, [=](std::ptrdiff_t k) { dx[k] = dx[k] + by * dy[k]; });
        }
    }
  };
};

}  // namespace detail

/// The mean of each window and channel: PyTorch's AvgPool2d. Nothing is kept for backward.
///
///     feature_map<T, C, H, W> to feature_map<T, C, H', W'>,  H' = (H + 2 p - window) / s + 1
///
///     average_pool<2>,  average_pool<3, pool_options{.stride = 1, .padding = 1, .count_padding = false}>
///
/// Of windows across the upper or lower edge, sums of bf16 are rounded after each row; so are gradients.
template <height_width Window, pool_options Options = pool_options{}>
struct average_pool {
  static constexpr detail::short_name shown_name = detail::name_of_pool("average_pool", Window, Options);

  template <class In, class... Position>
  using refusal = typename detail::pool_check<average_pool, In, Window, Options, Position...>::broken_promise;

  template <class In>
  struct on;

  template <detail::floating_map In>
  struct on<In> : of_kind<on<In>, detail::average_pool_kernels<typename In::value_type, Window>> {
    using pooled = detail::pooled<average_pool, In, Window, Options>;
    using output = typename pooled::output;
    static constexpr auto sizes = pooled::sizes;
    static constexpr work cost{.forward = pooled::seen, .backward_input = pooled::seen, .bytes = pooled::bytes};
  };
};

}  // namespace gpipe
