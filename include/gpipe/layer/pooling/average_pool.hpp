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
  GPIPE_HOST_DEVICE static number weight(const windows& geometry, int rows, int columns) {
    return number(1) / number(geometry.count_padding ? Window.height * Window.width : rows * columns);
  }

  // A team has a row of outputs.
  struct mean {
    const T* in;
    T* out;
    windows geometry;
    template <class Team>
    GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t row, const Team& team) const {
      const auto down = geometry.rows(static_cast<int>(row % geometry.out_height));
      const int rows = down.end - down.begin;
      const T* x = in + row / geometry.out_height * geometry.in_size() +
                   std::ptrdiff_t{down.begin} * geometry.in_width * geometry.channels;
      T* y = out + row * geometry.out_width * geometry.channels;
      if (geometry.whole.begin > 0 || geometry.whole.end < geometry.out_width)
        with_lanes<T>(team, geometry.channels, [&](auto lanes) { at_border(team, lanes, x, rows, y); });
      with_lanes<T>(team, std::ptrdiff_t{geometry.joined_pixels()} * geometry.channels,
                    [&](auto lanes) { inside(team, lanes, x, rows, y); });
    }

    template <class Team, class Lanes>
    GPIPE_HOST_DEVICE GPIPE_ROW_LOOP void inside(const Team& team, Lanes lanes, const T* x, int rows, T* y) const {
      using vector = detail::lanes<T, int{lanes}>;
      const std::ptrdiff_t C = geometry.channels, line = geometry.in_width * C, step = geometry.stride.width * C;
      const std::ptrdiff_t width = geometry.joined_pixels() * C;
      const number factor = weight(geometry, rows, Window.width);
      x += (geometry.whole.begin * geometry.stride.width - geometry.padding.width) * C;
      const T* end = y + geometry.whole.end * C;
      for (y += geometry.whole.begin * C; y < end; x += step, y += width) {
        if (rows == Window.height)
          in_blocks(team, width, lanes, [=](std::ptrdiff_t k) GPIPE_INLINED {
            typename vector::type sum{};
            unrolled<Window.height * Window.width>(
                [&](int p) { sum += vector::load(x + p / Window.width * line + p % Window.width * C + k); });
            vector::store(factor * sum, y + k);
          });
        else
          in_blocks(team, width, lanes, [=](std::ptrdiff_t k) GPIPE_INLINED {
            typename vector::type total{};
            for (int i = 0; i < rows; ++i) {
              typename vector::type sum{};
              unrolled<Window.width>([&](int j) { sum += vector::load(x + i * line + j * C + k); });
              total = vector::rounded(i == 0 ? factor * sum : vector::multiply_add(vector::repeat(factor), sum, total));
            }
            vector::store(total, y + k);
          });
      }
    }

    template <class Team, class Lanes>
    GPIPE_HOST_DEVICE GPIPE_ROW_LOOP void at_border(const Team& team, Lanes lanes, const T* first, int rows,
                                                    T* row) const {
      using vector = detail::lanes<T, int{lanes}>;
      const std::ptrdiff_t C = geometry.channels, line = geometry.in_width * C;
      for (int u = 0; u < geometry.out_width; ++u) {
        if (u >= geometry.whole.begin && u < geometry.whole.end) continue;
        const auto across = geometry.columns(u);
        const int columns = across.end - across.begin;
        const number factor = weight(geometry, rows, columns);
        const T* x = first + across.begin * C;
        T* y = row + u * C;
        in_blocks(team, C, lanes, [=](std::ptrdiff_t k) GPIPE_INLINED {
          typename vector::type sum{};
          for (int i = 0; i < rows; ++i)
            for (int j = 0; j < columns; ++j) sum += vector::load(x + i * line + j * C + k);
          vector::store(factor * sum, y + k);
        });
      }
    }
  };

  struct spread {
    const T* out_gradient;
    T* in_gradient;
    windows geometry;

    template <class Team>
    GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t row, const Team& team) const {
      const auto down = geometry.rows_that_see(static_cast<int>(row % geometry.in_height));
      const T* dy = out_gradient + row / geometry.in_height * geometry.out_size() +
                    std::ptrdiff_t{down.begin} * geometry.out_width * geometry.channels;
      T* dx = in_gradient + row * geometry.in_width * geometry.channels;
      const auto seen = geometry.evenly_seen;
      if (seen.begin > 0 || seen.end < geometry.in_width)
        with_lanes<T>(team, geometry.channels,
                      [&](auto lanes) { at_border(team, lanes, dy, down.begin, down.end, dx); });
      if (seen.end > seen.begin)
        with_lanes<T>(team, std::ptrdiff_t{seen.end - seen.begin} * geometry.channels,
                      [&](auto lanes) { inside(team, lanes, dy, down.begin, down.end, dx); });
    }

    template <class Team, class Lanes>
    GPIPE_HOST_DEVICE GPIPE_ROW_LOOP void inside(const Team& team, Lanes lanes, const T* dy, int begin, int end,
                                                 T* dx) const {
      using vector = detail::lanes<T, int{lanes}>;
      const std::ptrdiff_t C = geometry.channels, line = geometry.out_width * C;
      const int rows = end - begin;
      number factors[static_cast<std::size_t>(Window.height)];
      for (int t = 0; t < rows; ++t) factors[t] = weight(geometry, seen_rows(begin + t), Window.width);
      dy += (geometry.evenly_seen.begin + geometry.padding.width) * C;
      dx += geometry.evenly_seen.begin * C;
      in_blocks(team, (geometry.evenly_seen.end - geometry.evenly_seen.begin) * C, lanes,
                [=, &factors](std::ptrdiff_t k) GPIPE_INLINED {
                  typename vector::type total{};
                  const auto add = [&](int t) {
                    typename vector::type sum{};
                    unrolled<Window.width>(
                        [&](int u) { sum += vector::load(dy + t * line - (Window.width - 1 - u) * C + k); });
                    total = vector::rounded(t == 0 ? factors[t] * sum
                                                   : vector::multiply_add(vector::repeat(factors[t]), sum, total));
                  };
                  if (rows == Window.height) unrolled<Window.height>(add);
                  else
                    for (int t = 0; t < rows; ++t) add(t);
                  vector::store(total, dx + k);
                });
    }

    template <class Team, class Lanes>
    GPIPE_HOST_DEVICE GPIPE_ROW_LOOP void at_border(const Team& team, Lanes lanes, const T* first, int begin, int end,
                                                    T* row) const {
      using vector = detail::lanes<T, int{lanes}>;
      const std::ptrdiff_t C = geometry.channels, line = geometry.out_width * C;
      const int rows = end - begin;
      const number even = weight(geometry, Window.height, Window.width);
      typename windows::span across{};
      for (int j = 0; j < geometry.in_width; ++j) {
        across = geometry.columns_that_see(j, across);
        if (j >= geometry.evenly_seen.begin && j < geometry.evenly_seen.end) continue;
        const T* dy = first + across.begin * C;
        T* dx = row + j * C;
        if (rows <= 0 || across.begin >= across.end) {
          in_blocks(team, C, lanes,
                    [=](std::ptrdiff_t k) GPIPE_INLINED { vector::store(typename vector::type{}, dx + k); });
          continue;
        }
        const int seen = across.end - across.begin;
        if (rows == 1 && seen == 1) {
          const number factor =
              geometry.count_padding ? even : weight(geometry, seen_rows(begin), seen_columns(across.begin));
          in_blocks(team, C, lanes,
                    [=](std::ptrdiff_t k) GPIPE_INLINED { vector::store(factor * vector::load(dy + k), dx + k); });
          continue;
        }
        with_small_count<Window.width>(seen, [&](auto columns) GPIPE_INLINED {
          number factors[static_cast<std::size_t>(Window.height * Window.width)];
          for (int w = 0, t = 0; t < rows; ++t) {
            const int height = geometry.count_padding ? Window.height : seen_rows(begin + t);
            for (int u = 0; u < columns; ++u) {
              const int width = geometry.count_padding ? Window.width : seen_columns(across.begin + u);
              factors[w++] = height * width == Window.height * Window.width ? even : weight(geometry, height, width);
            }
          }
          in_blocks(team, C, lanes, [=, &factors](std::ptrdiff_t k) GPIPE_INLINED {
            typename vector::type sum = factors[0] * vector::load(dy + k);
            const number* weight = factors;
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
      const auto down = geometry.rows(t);
      return down.end - down.begin;
    }
    GPIPE_HOST_DEVICE int seen_columns(int u) const {
      const auto across = geometry.columns(u);
      return across.end - across.begin;
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
