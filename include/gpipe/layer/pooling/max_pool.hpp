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
    const windows& geometry = a.sizes();
    c.rows(std::ptrdiff_t{a.samples()} * geometry.out_height,
           find{a.in(), a.out(), a.template extra<0, std::uint8_t>(), geometry});
  }
  template <class Context, class A>
  static void backward_input(const Context& c, const A& a) {
    if (!a.in_gradient()) return;
    const windows& geometry = a.sizes();
    c.rows(std::ptrdiff_t{a.samples()} * geometry.in_height,
           return_to{a.out_gradient(), a.template extra<0, std::uint8_t>(), a.in_gradient(), geometry});
  }

  // A team has a row of outputs.
  struct find {
    const T* in;
    T* out;
    std::uint8_t* positions;
    windows geometry;
    template <class Team>
    GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t row, const Team& team) const {
      const auto down = geometry.rows(static_cast<int>(row % geometry.out_height));
      const T* x = in + row / geometry.out_height * geometry.in_size() +
                   std::ptrdiff_t{down.begin} * geometry.in_width * geometry.channels;
      const int rows = down.end - down.begin, position = (down.begin - down.first) * Window.width;
      const std::ptrdiff_t offset = row * geometry.out_width * geometry.channels;
      if (geometry.whole.begin > 0 || geometry.whole.end < geometry.out_width)
        with_lanes<T>(team, geometry.channels, [&](auto lanes) {
          at_border(team, lanes, x, rows, position, offset, 0, geometry.whole.begin, 1);
          at_border(team, lanes, x, rows, position, offset, geometry.whole.end, geometry.out_width, 1);
        });
      const int joined = geometry.joined_pixels();
      with_lanes<T>(team, std::ptrdiff_t{joined} * geometry.channels, [&](auto lanes) {
        if (rows == Window.height) inside(team, lanes, x, offset, joined);
        else at_border(team, lanes, x, rows, position, offset, geometry.whole.begin, geometry.whole.end, joined);
      });
    }

    // `joined` pixels at a time, whose elements are side by side.
    template <class Team, class Lanes>
    GPIPE_HOST_DEVICE GPIPE_ROW_LOOP void inside(const Team& team, Lanes lanes, const T* x, std::ptrdiff_t offset,
                                                 int joined) const {
      using vector = detail::lanes<T, int{lanes}>;
      const std::ptrdiff_t C = geometry.channels, line = geometry.in_width * C, step = geometry.stride.width * C,
                           width = joined * C;
      x += (geometry.whole.begin * geometry.stride.width - geometry.padding.width) * C;
      const std::ptrdiff_t end = offset + geometry.whole.end * C;
      for (offset += geometry.whole.begin * C; offset < end; offset += width, x += step)
        in_blocks(team, width, lanes,
                  [=, y = out + offset, position = positions + offset](std::ptrdiff_t k) GPIPE_INLINED {
                    const auto highest = of_window<vector, 0, Window.height * Window.width>(x + k, line, C);
                    vector::store(highest.value, y + k);
                    vector::store_bytes(highest.position, position + k);
                  });
    }

    template <class Team, class Lanes>
    GPIPE_HOST_DEVICE GPIPE_ROW_LOOP void at_border(const Team& team, Lanes lanes, const T* first, int rows,
                                                    int first_place, std::ptrdiff_t offset, int begin, int end,
                                                    int joined) const {
      using vector = detail::lanes<T, int{lanes}>;
      const std::ptrdiff_t C = geometry.channels, line = geometry.in_width * C;
      for (int u = begin; u < end; u += joined) {
        const auto across = geometry.columns(u);
        const int start = first_place + across.begin - across.first, columns = across.end - across.begin;
        const T* x = first + across.begin * C;
        in_blocks(team, joined * C, lanes,
                  [=, y = out + offset + u * C, position = positions + offset + u * C](std::ptrdiff_t k) GPIPE_INLINED {
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
    GPIPE_HOST_DEVICE static maximum<Vector> highest_of(maximum<Vector> current, const maximum<Vector>& next) {
      const auto higher =
          (next.value > current.value) | (next.value != next.value);  // NOLINT(misc-redundant-expression)
      current.position = higher ? next.position : current.position;
      current.value = higher ? next.value : current.value;
      return current;
    }
    // The maximum of the pixels [From, To) of a window, by halves: comparisons that do not wait for each other.
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
    windows geometry;
    template <class Team>
    GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t row, const Team& team) const {
      const auto i = static_cast<int>(row % geometry.in_height);
      const auto down = geometry.rows_that_see(i);
      const std::ptrdiff_t offset = row / geometry.in_height * geometry.out_size() +
                                    std::ptrdiff_t{down.begin} * geometry.out_width * geometry.channels;
      const int rows = down.end - down.begin, first = (i - geometry.rows(down.begin).first) * Window.width;
      T* dx = in_gradient + row * geometry.in_width * geometry.channels;
      if (geometry.seen.begin > 0 || geometry.seen.end < geometry.in_width)
        with_lanes<T>(team, geometry.channels, [&](auto lanes) { at_border(team, lanes, offset, rows, first, dx); });
      if (geometry.seen.end > geometry.seen.begin)
        with_lanes<T>(team, std::ptrdiff_t{geometry.seen.end - geometry.seen.begin} * geometry.channels,
                      [&](auto lanes) {
                        inside(team, lanes, offset, rows, first, dx + geometry.seen.begin * geometry.channels);
                      });
    }

    template <class Team, class Lanes>
    GPIPE_HOST_DEVICE GPIPE_ROW_LOOP void inside(const Team& team, Lanes lanes, std::ptrdiff_t offset, int rows,
                                                 int first, T* dx) const {
      using vector = detail::lanes<T, int{lanes}>;
      const std::ptrdiff_t C = geometry.channels, line = geometry.out_width * C;
      offset += (geometry.seen.begin + geometry.padding.width) * C;
      const int step = geometry.stride.height * Window.width;
      in_blocks(team, (geometry.seen.end - geometry.seen.begin) * C, lanes,
                [=, dy = out_gradient + offset, position = positions + offset](std::ptrdiff_t k) GPIPE_INLINED {
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
    GPIPE_HOST_DEVICE GPIPE_ROW_LOOP void at_border(const Team& team, Lanes lanes, std::ptrdiff_t offset, int rows,
                                                    int first, T* row) const {
      using vector = detail::lanes<T, int{lanes}>;
      const std::ptrdiff_t C = geometry.channels, line = geometry.out_width * C;
      const int next = geometry.stride.width, next_type = geometry.stride.height * Window.width;
      typename windows::span across{};
      for (int j = 0; j < geometry.in_width; ++j) {
        across = geometry.columns_that_see(j, across);
        if (j >= geometry.seen.begin && j < geometry.seen.end) continue;
        const int place = first + j - (across.begin * next - geometry.padding.width);
        const T* dy = out_gradient + offset + across.begin * C;
        const std::uint8_t* position = positions + offset + across.begin * C;
        T* dx = row + j * C;
        if (rows <= 0 || across.begin >= across.end) {
          in_blocks(team, C, lanes,
                    [=](std::ptrdiff_t k) GPIPE_INLINED { vector::store(typename vector::type{}, dx + k); });
          continue;
        }
        if (rows == 1 && across.end - across.begin == 1) {
          in_blocks(team, C, lanes, [=](std::ptrdiff_t k) GPIPE_INLINED {
            vector::store(routed<vector>(dy + k, position + k, place), dx + k);
          });
          continue;
        }
        with_small_count<Window.width>(across.end - across.begin, [&](auto columns) GPIPE_INLINED {
          in_blocks(team, C, lanes, [=](std::ptrdiff_t k) GPIPE_INLINED {
            auto sum = routed<vector>(dy + k, position + k, place);
            for (int t = 0; t < rows; ++t)
              for (int u = t == 0 ? 1 : 0; u < columns; ++u) {
                const std::ptrdiff_t window = t * line + u * C + k;
                sum = vector::rounded(sum +
                                      routed<vector>(dy + window, position + window, place - t * next_type - u * next));
              }
            vector::store(sum, dx + k);
          });
        });
      }
    }

    // The gradient of a window whose maximum is its pixel `place`, else 0.
    template <class Vector>
    GPIPE_HOST_DEVICE static auto routed(const T* dy, const std::uint8_t* position, int place) {
      const typename Vector::type value = Vector::load(dy), none{};
      return Vector::load_bytes(position) == place - typename Vector::integers{} ? value : none;
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
