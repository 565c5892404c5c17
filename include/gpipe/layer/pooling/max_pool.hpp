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

  // A team has a row of outputs.
  struct find {
    const T* in;
    T* out;
    std::uint8_t* positions;
    windows of;
    template <class Team>
    GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t row, const Team& team) const {
      const auto down = of.rows(static_cast<int>(row % of.out_height));
      const T* x = in + row / of.out_height * of.in_size() + std::ptrdiff_t{down.from} * of.in_width * of.channels;
      const int rows = down.to - down.from, position = (down.from - down.first) * Window.width;
      const std::ptrdiff_t at = row * of.out_width * of.channels;
      if (of.whole.from > 0 || of.whole.to < of.out_width)
        with_lanes<T>(team, of.channels, [&](auto lanes) {
          at_border(team, lanes, x, rows, position, at, 0, of.whole.from, 1);
          at_border(team, lanes, x, rows, position, at, of.whole.to, of.out_width, 1);
        });
      const int joined = of.joined_pixels();
      with_lanes<T>(team, std::ptrdiff_t{joined} * of.channels, [&](auto lanes) {
        if (rows == Window.height) inside(team, lanes, x, at, joined);
        else at_border(team, lanes, x, rows, position, at, of.whole.from, of.whole.to, joined);
      });
    }

    // `joined` pixels at a time, whose elements lie side by side.
    template <class Team, class Lanes>
    GPIPE_HOST_DEVICE GPIPE_ROW_LOOP void inside(const Team& team, Lanes lanes, const T* x, std::ptrdiff_t at,
                                                 int joined) const {
      using vector = detail::lanes<T, int{lanes}>;
      const std::ptrdiff_t C = of.channels, line = of.in_width * C, step = of.stride.width * C, width = joined * C;
      x += (of.whole.from * of.stride.width - of.padding.width) * C;
      const std::ptrdiff_t end = at + of.whole.to * C;
      for (at += of.whole.from * C; at < end; at += width, x += step)
        in_blocks(team, width, lanes, [=, y = out + at, position = positions + at](std::ptrdiff_t k) GPIPE_INLINED {
          const auto highest = of_window<vector, 0, Window.height * Window.width>(x + k, line, C);
          vector::store(highest.value, y + k);
          vector::store_bytes(highest.position, position + k);
        });
    }

    template <class Team, class Lanes>
    GPIPE_HOST_DEVICE GPIPE_ROW_LOOP void at_border(const Team& team, Lanes lanes, const T* first, int rows,
                                                    int first_place, std::ptrdiff_t at, int from, int to,
                                                    int joined) const {
      using vector = detail::lanes<T, int{lanes}>;
      const std::ptrdiff_t C = of.channels, line = of.in_width * C;
      for (int u = from; u < to; u += joined) {
        const auto across = of.columns(u);
        const int start = first_place + across.from - across.first, columns = across.to - across.from;
        const T* x = first + across.from * C;
        in_blocks(team, joined * C, lanes,
                  [=, y = out + at + u * C, position = positions + at + u * C](std::ptrdiff_t k) GPIPE_INLINED {
                    auto highest = pixel<vector>(x + k, start);
                    for (int i = 0; i < rows; ++i)
                      for (int j = i == 0 ? 1 : 0; j < columns; ++j)
                        highest =
                            highest_of(highest, pixel<vector>(x + i * line + j * C + k, start + i * Window.width + j));
                    vector::store(highest.value, y + k);
                    vector::store_bytes(highest.position, position + k);
                  });
      }
    }

    template <class Vector>
    struct maximum {
      typename Vector::type value;
      typename Vector::integers position;
    };
    template <class Vector>
    GPIPE_HOST_DEVICE static maximum<Vector> pixel(const T* x, int position) {
      return {Vector::load(x), position - typename Vector::integers{}};
    }
    // The first maximum, or the last NaN.
    template <class Vector>
    GPIPE_HOST_DEVICE static maximum<Vector> highest_of(maximum<Vector> of, const maximum<Vector>& next) {
      const auto higher = (next.value > of.value) | (next.value != next.value);  // NOLINT(misc-redundant-expression)
      of.position = higher ? next.position : of.position;
      of.value = higher ? next.value : of.value;
      return of;
    }
    // Of the pixels [From, To) of a window, by halves: comparisons that do not wait for each other.
    template <class Vector, int From, int To>
    GPIPE_HOST_DEVICE static maximum<Vector> of_window(const T* x, std::ptrdiff_t line, std::ptrdiff_t pixel_size) {
      if constexpr (To - From == 1) {
        return pixel<Vector>(x + From / Window.width * line + From % Window.width * pixel_size, From);
      } else {
        constexpr int middle = (From + To) / 2;
        return highest_of(of_window<Vector, From, middle>(x, line, pixel_size),
                          of_window<Vector, middle, To>(x, line, pixel_size));
      }
    }
  };

  // A pixel gathers from the windows that see it, so that no two threads write to one place.
  struct return_to {
    const T* out_gradient;
    const std::uint8_t* positions;
    T* in_gradient;
    windows of;
    template <class Team>
    GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t row, const Team& team) const {
      const auto i = static_cast<int>(row % of.in_height);
      const auto down = of.rows_that_see(i);
      const std::ptrdiff_t at =
          row / of.in_height * of.out_size() + std::ptrdiff_t{down.from} * of.out_width * of.channels;
      const int rows = down.to - down.from, first = (i - of.rows(down.from).first) * Window.width;
      T* dx = in_gradient + row * of.in_width * of.channels;
      if (of.seen.from > 0 || of.seen.to < of.in_width)
        with_lanes<T>(team, of.channels, [&](auto lanes) { at_border(team, lanes, at, rows, first, dx); });
      if (of.seen.to > of.seen.from)
        with_lanes<T>(team, std::ptrdiff_t{of.seen.to - of.seen.from} * of.channels,
                      [&](auto lanes) { inside(team, lanes, at, rows, first, dx + of.seen.from * of.channels); });
    }

    template <class Team, class Lanes>
    GPIPE_HOST_DEVICE GPIPE_ROW_LOOP void inside(const Team& team, Lanes lanes, std::ptrdiff_t at, int rows, int first,
                                                 T* dx) const {
      using vector = detail::lanes<T, int{lanes}>;
      const std::ptrdiff_t C = of.channels, line = of.out_width * C;
      at += (of.seen.from + of.padding.width) * C;
      const int step = of.stride.height * Window.width;
      in_blocks(team, (of.seen.to - of.seen.from) * C, lanes,
                [=, dy = out_gradient + at, position = positions + at](std::ptrdiff_t k) GPIPE_INLINED {
                  typename vector::type sum{};
                  for (int t = 0; t < rows; ++t) {
                    unrolled<Window.width>([&](int u) {
                      const int j = Window.width - 1 - u;
                      const std::ptrdiff_t window = t * line - j * C + k;
                      sum += routed<vector>(dy + window, position + window, first - t * step + j);
                    });
                    sum = vector::rounded(sum);
                  }
                  vector::store(sum, dx + k);
                });
    }

    template <class Team, class Lanes>
    GPIPE_HOST_DEVICE GPIPE_ROW_LOOP void at_border(const Team& team, Lanes lanes, std::ptrdiff_t at, int rows,
                                                    int first, T* row) const {
      using vector = detail::lanes<T, int{lanes}>;
      const std::ptrdiff_t C = of.channels, line = of.out_width * C;
      const int next = of.stride.width, next_type = of.stride.height * Window.width;
      typename windows::span across{};
      for (int j = 0; j < of.in_width; ++j) {
        across = of.columns_that_see(j, across);
        if (j >= of.seen.from && j < of.seen.to) continue;
        const int here = first + j - (across.from * next - of.padding.width);
        const T* dy = out_gradient + at + across.from * C;
        const std::uint8_t* position = positions + at + across.from * C;
        T* dx = row + j * C;
        if (rows <= 0 || across.from >= across.to) {
          in_blocks(team, C, lanes,
                    [=](std::ptrdiff_t k) GPIPE_INLINED { vector::store(typename vector::type{}, dx + k); });
          continue;
        }
        if (rows == 1 && across.to - across.from == 1) {
          in_blocks(team, C, lanes, [=](std::ptrdiff_t k) GPIPE_INLINED {
            vector::store(routed<vector>(dy + k, position + k, here), dx + k);
          });
          continue;
        }
        with_small_count<Window.width>(across.to - across.from, [&](auto columns) GPIPE_INLINED {
          in_blocks(team, C, lanes, [=](std::ptrdiff_t k) GPIPE_INLINED {
            auto sum = routed<vector>(dy + k, position + k, here);
            for (int t = 0; t < rows; ++t)
              for (int u = t == 0 ? 1 : 0; u < columns; ++u) {
                const std::ptrdiff_t window = t * line + u * C + k;
                sum = vector::rounded(sum +
                                      routed<vector>(dy + window, position + window, here - t * next_type - u * next));
              }
            vector::store(sum, dx + k);
          });
        });
      }
    }

    // The gradient of a window whose maximum is its pixel `here`, else 0.
    template <class Vector>
    GPIPE_HOST_DEVICE static auto routed(const T* dy, const std::uint8_t* position, int here) {
      const typename Vector::type value = Vector::load(dy), none{};
      return Vector::load_bytes(position) == here - typename Vector::integers{} ? value : none;
    }
  };
};

}  // namespace detail

/// The maximum of each window and channel: PyTorch's MaxPool2d. The first maximum has the gradient; NaN is a maximum.
/// Padding is never one. Backward keeps neither input nor output, but the maximum's position in its window, one byte
/// each.
///
///     feature_map<T, C, H, W> to feature_map<T, C, H', W'>,  H' = (H + 2 p - window) / s + 1
///
///     max_pool<2>,  max_pool<3, pool_options{.stride = 2, .padding = 1}>,  max_pool<height_width{2, 1}>
template <height_width Window = 0, auto Given = pool_options{}>
struct max_pool {
  static_assert(Window.height * Window.width <= 256, "gpipe: max_pool<Window>: a window has at most 256 pixels");

  static constexpr detail::short_name shown_name =
      detail::name_of_pool("max_pool", Window, detail::options_of<pool_options, Given>());

  template <class In, class... Position>
  using refusal = typename detail::pool_check<max_pool, In, Window, Given, Position...>::broken_promise;

  template <class In>
  struct on;

  template <detail::floating_map In>
  struct on<In> : of_kind<on<In>, detail::max_pool_kernels<typename In::value_type, Window>> {
    using pooled = detail::pooled<max_pool, In, Window, Given>;
    using output = typename pooled::output;
    static constexpr auto sizes = pooled::sizes;
    static constexpr buffer extras[] = {{"positions", output::size, dtype::uint8}};
    static constexpr work cost{.forward = pooled::seen,
                               .backward_input = pooled::seen,
                               .bytes = pooled::bytes + static_cast<std::int64_t>(output::size)};
  };
};

}  // namespace gpipe
