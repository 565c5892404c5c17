#pragma once

#include <cstddef>
#include <cstdint>

#include <gpipe/core/tensors/feature_map.hpp>
#include <gpipe/layer/contract/bound.hpp>
#include <gpipe/layer/contract/operands.hpp>

namespace gpipe {

namespace broken {

template <class Layer, class Input, int Height, int Width, bool Holds>
struct padded_picture_has_pixels {
  static_assert(Holds,
                "gpipe: pad<...> leaves no pixel of the picture, Height x Width: take away fewer rows or columns");
};

}  // namespace broken

/// Rows and columns of 0 around the picture; negative numbers take rows and columns away. PyTorch's pad(x, (left,
/// right, top, bottom)).
///
///     pad<0, 1, 0, 1>        a column more to the right, and a row more below
///     pad<-1, 1, -1, 1>      the picture without its first column and row, moved to their place
template <int Left, int Right, int Top, int Bottom>
struct pad {
  template <class In>
  struct on;

  template <detail::floating_map In>
  struct on<In> {
    using T = typename In::value_type;
    static constexpr int C = In::channels, height = In::height + Top + Bottom, width = In::width + Left + Right;
    static constexpr bool fits =
        height > 0 && width > 0 && -Top < In::height && -Bottom < In::height && -Left < In::width && -Right < In::width;
    static_assert(sizeof(broken::padded_picture_has_pixels<pad, In, height, width, fits>) > 0);
    using output = feature_map<T, C, fits ? height : 1, fits ? width : 1>;
    static constexpr work cost{.bytes = static_cast<std::int64_t>(sizeof(T) * (In::size + output::size))};

    template <class Context, class A>
    static void forward(const Context& c, const A& a) {
      c.rows(a.samples() * static_cast<std::ptrdiff_t>(output::pixels), move<In, output, Left, Top>{a.in(), a.out()});
    }
    template <class Context, class A>
    static void backward_input(const Context& c, const A& a) {
      if (a.in_gradient())
        c.rows(a.samples() * static_cast<std::ptrdiff_t>(In::pixels),
               move<output, In, -Left, -Top>{a.out_gradient(), a.in_gradient()});
    }

    /// Pixel (i, j) of `To` is pixel (i - Down, j - Across) of `From`, or 0.
    template <class From, class To, int Across, int Down>
    struct move {
      const T* from;
      T* into;
      template <class Team>
      GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t pixel, const Team& team) const {
        const auto i = static_cast<int>(pixel / To::width % To::height) - Down,
                   j = static_cast<int>(pixel % To::width) - Across;
        const std::ptrdiff_t sample = pixel / static_cast<std::ptrdiff_t>(To::pixels);
        T* y = into + pixel * C;
        if (i < 0 || i >= From::height || j < 0 || j >= From::width) {
          team.each(C, [=](std::ptrdiff_t k) { y[k] = T(0); });
        } else {
          const T* x = from + ((sample * From::height + i) * From::width + j) * C;
          team.each(C, [=](std::ptrdiff_t k) { y[k] = x[k]; });
        }
      }
    };
  };
};

/// The picture with rows and columns of 0 below and to the right, up to `Height` x `Width`: a smaller map beside a
/// larger one, as U-Net wants it.
template <int Height, int Width>
struct pad_to {
  template <class In>
  struct on;

  template <detail::floating_map In>
  struct on<In> : pad<0, Width - In::width, 0, Height - In::height>::template on<In> {};
};

}  // namespace gpipe
