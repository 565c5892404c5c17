#pragma once

#include <cstddef>
#include <cstdint>

#include <gpipe/layer/contract/bound.hpp>
#include <gpipe/layer/contract/operands.hpp>
#include <gpipe/layer/pooling/pool_options.hpp>

namespace gpipe {

namespace detail {

template <class T, height_width Window>
struct max_pool_kernels {
  using value_type = T;
  using number = compute_type<T>;
  using windows = pool_windows<Window>;
  using numbers = windows;

  template <class Context, class A>
  static void forward(const Context& c, const A& a) {
    const windows& of = a.sizes();
    c.rows(std::ptrdiff_t{a.samples()} * of.out_height, find{a.in(), a.out(), a.template extra<0, std::uint8_t>(), of});
  }
  template <class Context, class A>
  static void backward_input(const Context& c, const A& a) {
    if (!a.in_gradient()) return;
    const windows& of = a.sizes();
    c.rows(std::ptrdiff_t{a.samples()} * of.in_height,
           return_to{a.out_gradient(), a.template extra<0, std::uint8_t>(), a.in_gradient(), of});
  }

  // A team has a row of outputs. Its long vectors are loops over the window without a branch.
  struct find {
    const T* in;
    T* out;
    std::uint8_t* places;
    windows of;
    template <class Team>
    GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t row, const Team& team) const {
      const std::ptrdiff_t C = of.channels;
      const auto t = static_cast<int>(row % of.out_height);
      const auto down = of.rows(t);
      const auto whole = of.whole_windows();
      const T* picture = in + row / of.out_height * of.in_size();
      T* y = out + row * of.out_width * C;
      std::uint8_t* place = places + row * of.out_width * C;
      for (int u = 0; u < whole.from; ++u) at_border(team, picture, down, u, y, place);
      for (int u = whole.to; u < of.out_width; ++u) at_border(team, picture, down, u, y, place);
      const bool joined = of.overlap_by_pixels();
      for (int u = whole.from; u < whole.to; u += joined ? whole.to - whole.from : 1) {
        const std::ptrdiff_t width = std::ptrdiff_t{joined ? whole.to - whole.from : 1} * C;
        const T* x = picture + (std::ptrdiff_t{down.first} * of.in_width + of.columns(u).first) * C;
        if (down.to - down.from == Window.height) {
          rows_of_window<Window.height>(team, width, x, 0, true, y + u * C, place + u * C);
        } else {
          for (int i = down.from; i < down.to; ++i)
            rows_of_window<1>(team, width, x, i - down.first, i == down.from, y + u * C, place + u * C);
        }
      }
    }

    // Goes on with `Rows` rows of the windows, from row `first` on.
    template <int Rows, class Team>
    GPIPE_HOST_DEVICE void rows_of_window(const Team& team, std::ptrdiff_t width, const T* window, int first,
                                          bool begins, T* y, std::uint8_t* place) const {
      const std::ptrdiff_t C = of.channels, line = of.in_width * C;
      const T* x = window + first * line;
      team.each(width, [=](std::ptrdiff_t k) {
        number best = begins ? x[k] : y[k];
        int at = begins ? first * Window.width : place[k];
        unrolled<Rows * Window.width>([&](int p) {
          const number value = x[p / Window.width * line + p % Window.width * C + k];
          const bool higher = (value > best) | (value != value);  // NaN is; NOLINT(misc-redundant-expression)
          best = higher ? value : best;
          at = higher ? first * Window.width + p : at;
        });
        y[k] = best;
        place[k] = static_cast<std::uint8_t>(at);
      });
    }

    template <class Team>
    GPIPE_HOST_DEVICE void at_border(const Team& team, const T* picture, typename windows::span down, int u, T* row,
                                     std::uint8_t* row_places) const {
      const auto across = of.columns(u);
      const auto at = of.template pixels_of<T>(picture, down, across);
      const int first = (down.from - down.first) * Window.width + across.from - across.first;
      const T* begin = picture + (std::ptrdiff_t{down.from} * of.in_width + across.from) * of.channels;
      T* y = row + std::ptrdiff_t{u} * of.channels;
      std::uint8_t* place = row_places + std::ptrdiff_t{u} * of.channels;
      team.each(of.channels, [=](std::ptrdiff_t k) {
        number best = begin[k];
        int where = first;
        unrolled<at.count>([&](int p) {
          const number value = at.pixel[p][k];
          const bool higher = at.seen[p] & ((value > best) | (value != value));  // NOLINT(misc-redundant-expression)
          best = higher ? value : best;
          where = higher ? p : where;
        });
        y[k] = best;
        place[k] = static_cast<std::uint8_t>(where);
      });
    }
  };

  // A pixel gathers from the windows that see it, so that no two threads write to one place.
  struct return_to {
    const T* out_gradient;
    const std::uint8_t* places;
    T* in_gradient;
    windows of;
    template <class Team>
    GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t row, const Team& team) const {
      const std::ptrdiff_t C = of.channels;
      const auto i = static_cast<int>(row % of.in_height);
      const auto down = of.rows_that_see(i);
      const auto inside = of.fully_seen();
      const std::ptrdiff_t picture = row / of.in_height * of.out_size();
      T* dx = in_gradient + row * of.in_width * C;
      for (int j = 0; j < inside.from; ++j) at_border(team, picture, i, down, j, dx + j * C);
      for (int j = inside.to; j < of.in_width; ++j) at_border(team, picture, i, down, j, dx + j * C);
      if (inside.from != inside.to) {
        for (int t = down.from; t < down.to; ++t) {
          const std::ptrdiff_t at = picture + (std::ptrdiff_t{t} * of.out_width + inside.from + of.padding.width) * C;
          const T* dy = out_gradient + at;
          const std::uint8_t* place = places + at;
          T* into = dx + inside.from * C;
          const int first = (i - of.rows(t).first) * Window.width;
          const bool begins = t == down.from;
          team.each(std::ptrdiff_t{inside.to - inside.from} * C, [=](std::ptrdiff_t k) {
            number sum = begins ? number(0) : number(into[k]);
            unrolled<Window.width>([&](int u) {
              const int j = Window.width - 1 - u;
              sum += int{place[k - j * C]} == first + j ? number(dy[k - j * C]) : number(0);
            });
            into[k] = sum;
          });
        }
        if (down.from == down.to)
          team.each(std::ptrdiff_t{inside.to - inside.from} * C,
                    [=](std::ptrdiff_t k) { dx[inside.from * C + k] = number(0); });
      }
    }

    template <class Team>
    GPIPE_HOST_DEVICE void at_border(const Team& team, std::ptrdiff_t picture, int i, typename windows::span down,
                                     int j, T* into) const {
      const std::ptrdiff_t C = of.channels;
      const auto across = of.columns_that_see(j);
      if (down.from >= down.to || across.from >= across.to)
        team.each(C, [=](std::ptrdiff_t k) { into[k] = number(0); });
      for (int t = down.from; t < down.to; ++t)
        for (int u = across.from; u < across.to; ++u) {
          const std::ptrdiff_t at = picture + (std::ptrdiff_t{t} * of.out_width + u) * C;
          const T* dy = out_gradient + at;
          const std::uint8_t* place = places + at;
          const int here = (i - of.rows(t).first) * Window.width + j - of.columns(u).first;
          const bool begins = t == down.from && u == across.from;
          if (begins)
            team.each(C, [=](std::ptrdiff_t k) { into[k] = int{place[k]} == here ? number(dy[k]) : number(0); });
          else
            team.each(
                C, [=](std::ptrdiff_t k) { into[k] = into[k] + (int{place[k]} == here ? number(dy[k]) : number(0)); });
        }
    }
  };
};

}  // namespace detail

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

  template <class In, class... Position>
  using refusal = typename detail::pool_check<max_pool, In, Window, Options, Position...>::broken_promise;

  template <class In>
  struct on;

  template <detail::floating_map In>
  struct on<In> : of_kind<on<In>, detail::max_pool_kernels<typename In::value_type, Window>> {
    using pooled = detail::pooled<max_pool, In, Window, Options>;
    using output = typename pooled::output;
    static constexpr auto sizes = pooled::sizes;
    static constexpr buffer extras[] = {{"places", output::size, dtype::uint8}};
    static constexpr work cost{.forward = pooled::seen,
                               .backward_input = pooled::seen,
                               .bytes = pooled::bytes + static_cast<std::int64_t>(output::size)};
  };
};

}  // namespace gpipe
