#pragma once

#include <cstddef>
#include <cstdint>

#include <gpipe/core/tensors/tensor.hpp>
#include <gpipe/layer/contract/bound.hpp>
#include <gpipe/layer/contract/operands.hpp>

namespace gpipe {

namespace broken {

template <class Layer, class Input, int Height, int Width, bool Holds>
struct padded_image_has_pixels {
  static_assert(Holds, "gpipe: pad<...> leaves no pixel of the image, Height x Width: take away fewer rows or columns");
};

}  // namespace broken

namespace detail {

template <class T>
struct pad_kernels {
  using value_type = T;
  struct image {
    int height, width;
  };
  struct numbers {
    int channels;
    image in, out;
    int left, top;
  };

  template <class Context, class A>
  static void forward(const Context& c, const A& a) {
    const numbers& sizes = a.sizes();
    c.rows(std::ptrdiff_t{a.samples()} * sizes.out.height * sizes.out.width,
           move{a.in(), a.out(), sizes.in, sizes.out, sizes.left, sizes.top, sizes.channels});
  }
  template <class Context, class A>
  static void backward_input(const Context& c, const A& a) {
    const numbers& sizes = a.sizes();
    if (a.in_gradient())
      c.rows(std::ptrdiff_t{a.samples()} * sizes.in.height * sizes.in.width,
             move{a.out_gradient(), a.in_gradient(), sizes.out, sizes.in, -sizes.left, -sizes.top, sizes.channels});
  }

  /// Pixel (i, j) of `target` is pixel (i - down, j - across) of `source`, or 0.
  struct move {
    const T* source;
    T* target;
    image before, after;
    int across, down, channels;
    template <class Team>
    GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t pixel, const Team& team) const {
      const std::ptrdiff_t row = pixel / after.width;
      const auto i = static_cast<int>(row % after.height) - down, j = static_cast<int>(pixel % after.width) - across;
      T* y = target + pixel * channels;
      if (i < 0 || i >= before.height || j < 0 || j >= before.width) {
        team.each(channels, [=](std::ptrdiff_t k) { y[k] = T(0); });
      } else {
        const T* x = source + ((row / after.height * before.height + i) * before.width + j) * channels;
        team.each(channels, [=](std::ptrdiff_t k) { y[k] = x[k]; });
      }
    }
  };
};

}  // namespace detail

/// Rows and columns of 0 around the image; negative numbers take rows and columns away. PyTorch's pad(x, (left,
/// right, top, bottom)).
///
///     pad<0, 1, 0, 1>        a column more to the right, and a row more below
///     pad<-1, 1, -1, 1>      the image without its first column and row, moved to their place
template <int Left, int Right, int Top, int Bottom>
struct pad {
  template <class In>
  struct on;

  template <detail::floating_map In>
  struct on<In> : of_kind<on<In>, detail::pad_kernels<typename In::value_type>> {
    using T = typename In::value_type;
    static constexpr int height = In::height + Top + Bottom, width = In::width + Left + Right;
    static constexpr bool fits =
        height > 0 && width > 0 && -Top < In::height && -Bottom < In::height && -Left < In::width && -Right < In::width;
    static_assert(sizeof(broken::padded_image_has_pixels<pad, In, height, width, fits>) > 0);
    using output = feature_map<T, In::channels, fits ? height : 1, fits ? width : 1>;
    static constexpr
        typename on::numbers sizes{In::channels, {In::height, In::width}, {output::height, output::width}, Left, Top};
    static constexpr work cost{.bytes = static_cast<std::int64_t>(sizeof(T) * (In::size + output::size))};
  };
};

/// The image with rows and columns of 0 below and to the right, up to `Height` x `Width`: makes a smaller map as large
/// as another one, as U-Net needs it.
template <int Height, int Width>
struct pad_to {
  template <class In>
  struct on;

  template <detail::floating_map In>
  struct on<In> : pad<0, Width - In::width, 0, Height - In::height>::template on<In> {
    using declared_by = on;  // of the same kind
  };
};

}  // namespace gpipe
