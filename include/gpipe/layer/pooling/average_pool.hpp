#pragma once

#include <cstddef>
#include <cstdint>

#include <gpipe/core/tensors/lanes.hpp>
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

  /// The weight of a pixel in the mean of a window that has these rows and columns of the image.
  GPIPE_HOST_DEVICE static number weight(const windows& of, int rows, int columns) {
    return number(1) / number(of.count_padding ? Window.height * Window.width : rows * columns);
  }

  // A team has a row of outputs.
  struct mean {
    const T* in;
    T* out;
    windows of;
    template <class Team>
    GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t row, const Team& team) const {
      const auto down = of.rows(static_cast<int>(row % of.out_height));
      const int rows = down.to - down.from;
      const T* x = in + row / of.out_height * of.in_size() + std::ptrdiff_t{down.from} * of.in_width * of.channels;
      T* y = out + row * of.out_width * of.channels;
      if (of.whole.from > 0 || of.whole.to < of.out_width)
        with_lanes<T>(team, of.channels, [&](auto lanes) { at_border(team, lanes, x, rows, y); });
      with_lanes<T>(team, std::ptrdiff_t{of.joined_pixels()} * of.channels,
                    [&](auto lanes) { inside(team, lanes, x, rows, y); });
    }

    template <class Team, class Lanes>
    GPIPE_HOST_DEVICE GPIPE_ROW_LOOP void inside(const Team& team, Lanes lanes, const T* x, int rows, T* y) const {
      using vector = detail::lanes<T, int{lanes}>;
      const std::ptrdiff_t C = of.channels, line = of.in_width * C, step = of.stride.width * C;
      const std::ptrdiff_t width = of.joined_pixels() * C;
      const number by = weight(of, rows, Window.width);
      x += (of.whole.from * of.stride.width - of.padding.width) * C;
      const T* end = y + of.whole.to * C;
      for (y += of.whole.from * C; y < end; x += step, y += width) {
        if (rows == Window.height)
          in_blocks(team, width, lanes, [=](std::ptrdiff_t k) GPIPE_INLINED {
            typename vector::type sum{};
            unrolled<Window.height * Window.width>(
                [&](int p) { sum += vector::load(x + p / Window.width * line + p % Window.width * C + k); });
            vector::store(by * sum, y + k);
          });
        else
          in_blocks(team, width, lanes, [=](std::ptrdiff_t k) GPIPE_INLINED {
            typename vector::type total{};
            for (int i = 0; i < rows; ++i) {
              typename vector::type sum{};
              unrolled<Window.width>([&](int j) { sum += vector::load(x + i * line + j * C + k); });
              total = vector::rounded(i == 0 ? by * sum : vector::multiply_add(vector::repeat(by), sum, total));
            }
            vector::store(total, y + k);
          });
      }
    }

    template <class Team, class Lanes>
    GPIPE_HOST_DEVICE GPIPE_ROW_LOOP void at_border(const Team& team, Lanes lanes, const T* first, int rows,
                                                    T* row) const {
      using vector = detail::lanes<T, int{lanes}>;
      const std::ptrdiff_t C = of.channels, line = of.in_width * C;
      for (int u = 0; u < of.out_width; ++u) {
        if (u >= of.whole.from && u < of.whole.to) continue;
        const auto across = of.columns(u);
        const int columns = across.to - across.from;
        const number by = weight(of, rows, columns);
        const T* x = first + across.from * C;
        T* y = row + u * C;
        in_blocks(team, C, lanes, [=](std::ptrdiff_t k) GPIPE_INLINED {
          typename vector::type sum{};
          for (int i = 0; i < rows; ++i)
            for (int j = 0; j < columns; ++j) sum += vector::load(x + i * line + j * C + k);
          vector::store(by * sum, y + k);
        });
      }
    }
  };

  struct spread {
    const T* out_gradient;
    T* in_gradient;
    windows of;

    template <class Team>
    GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t row, const Team& team) const {
      const auto down = of.rows_that_see(static_cast<int>(row % of.in_height));
      const T* dy =
          out_gradient + row / of.in_height * of.out_size() + std::ptrdiff_t{down.from} * of.out_width * of.channels;
      T* dx = in_gradient + row * of.in_width * of.channels;
      const auto seen = of.evenly_seen;
      if (seen.from > 0 || seen.to < of.in_width)
        with_lanes<T>(team, of.channels, [&](auto lanes) { at_border(team, lanes, dy, down.from, down.to, dx); });
      if (seen.to > seen.from)
        with_lanes<T>(team, std::ptrdiff_t{seen.to - seen.from} * of.channels,
                      [&](auto lanes) { inside(team, lanes, dy, down.from, down.to, dx); });
    }

    template <class Team, class Lanes>
    GPIPE_HOST_DEVICE GPIPE_ROW_LOOP void inside(const Team& team, Lanes lanes, const T* dy, int from, int to,
                                                 T* dx) const {
      using vector = detail::lanes<T, int{lanes}>;
      const std::ptrdiff_t C = of.channels, line = of.out_width * C;
      const int rows = to - from;
      number by[static_cast<std::size_t>(Window.height)];
      for (int t = 0; t < rows; ++t) by[t] = weight(of, seen_rows(from + t), Window.width);
      dy += (of.evenly_seen.from + of.padding.width) * C;
      dx += of.evenly_seen.from * C;
      in_blocks(team, (of.evenly_seen.to - of.evenly_seen.from) * C, lanes, [=, &by](std::ptrdiff_t k) GPIPE_INLINED {
        typename vector::type total{};
        const auto add = [&](int t) {
          typename vector::type sum{};
          unrolled<Window.width>([&](int u) { sum += vector::load(dy + t * line - (Window.width - 1 - u) * C + k); });
          total = vector::rounded(t == 0 ? by[t] * sum : vector::multiply_add(vector::repeat(by[t]), sum, total));
        };
        if (rows == Window.height) unrolled<Window.height>(add);
        else
          for (int t = 0; t < rows; ++t) add(t);
        vector::store(total, dx + k);
      });
    }

    template <class Team, class Lanes>
    GPIPE_HOST_DEVICE GPIPE_ROW_LOOP void at_border(const Team& team, Lanes lanes, const T* first, int from, int to,
                                                    T* row) const {
      using vector = detail::lanes<T, int{lanes}>;
      const std::ptrdiff_t C = of.channels, line = of.out_width * C;
      const int rows = to - from;
      const number even = weight(of, Window.height, Window.width);
      typename windows::span across{};
      for (int j = 0; j < of.in_width; ++j) {
        across = of.columns_that_see(j, across);
        if (j >= of.evenly_seen.from && j < of.evenly_seen.to) continue;
        const T* dy = first + across.from * C;
        T* dx = row + j * C;
        if (rows <= 0 || across.from >= across.to) {
          in_blocks(team, C, lanes,
                    [=](std::ptrdiff_t k) GPIPE_INLINED { vector::store(typename vector::type{}, dx + k); });
          continue;
        }
        const int seen = across.to - across.from;
        if (rows == 1 && seen == 1) {
          const number by = of.count_padding ? even : weight(of, seen_rows(from), seen_columns(across.from));
          in_blocks(team, C, lanes,
                    [=](std::ptrdiff_t k) GPIPE_INLINED { vector::store(by * vector::load(dy + k), dx + k); });
          continue;
        }
        with_small_count<Window.width>(seen, [&](auto columns) GPIPE_INLINED {
          number by[static_cast<std::size_t>(Window.height * Window.width)];
          for (int w = 0, t = 0; t < rows; ++t) {
            const int height = of.count_padding ? Window.height : seen_rows(from + t);
            for (int u = 0; u < columns; ++u) {
              const int width = of.count_padding ? Window.width : seen_columns(across.from + u);
              by[w++] = height * width == Window.height * Window.width ? even : weight(of, height, width);
            }
          }
          in_blocks(team, C, lanes, [=, &by](std::ptrdiff_t k) GPIPE_INLINED {
            typename vector::type sum = by[0] * vector::load(dy + k);
            const number* weight = by;
            for (int t = 0; t < rows; ++t)
              for (int u = t == 0 ? 1 : 0; u < columns; ++u)
                sum = vector::multiply_add(vector::repeat(*++weight), vector::load(dy + t * line + u * C + k),
                                           vector::rounded(sum));
            vector::store(sum, dx + k);
          });
        });
      }
    }

    // The rows and columns of the image that a window sees.
    GPIPE_HOST_DEVICE int seen_rows(int t) const {
      const auto down = of.rows(t);
      return down.to - down.from;
    }
    GPIPE_HOST_DEVICE int seen_columns(int u) const {
      const auto across = of.columns(u);
      return across.to - across.from;
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
/// Sums of bf16 over windows across the upper or lower edge are rounded after each row; so are gradients.
template <height_width Window = 0, auto Given = pool_options{}>
struct average_pool {
  static constexpr detail::short_name shown_name =
      detail::name_of_pool("average_pool", Window, detail::options_of<pool_options, Given>());

  template <class In, class... Position>
  using refusal = typename detail::pool_check<average_pool, In, Window, Given, Position...>::broken_promise;

  template <class In>
  struct on;

  template <detail::floating_map In>
  struct on<In> : of_kind<on<In>, detail::average_pool_kernels<typename In::value_type, Window>> {
    using pooled = detail::pooled<average_pool, In, Window, Given>;
    using output = typename pooled::output;
    static constexpr auto sizes = pooled::sizes;
    static constexpr work cost{.forward = pooled::seen, .backward_input = pooled::seen, .bytes = pooled::bytes};
  };
};

}  // namespace gpipe
