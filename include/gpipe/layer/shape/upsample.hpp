#pragma once

#include <cstddef>
#include <cstdint>

#include <gpipe/core/tensors/tensor.hpp>
#include <gpipe/layer/contract/bound.hpp>
#include <gpipe/layer/contract/operands.hpp>
#include <gpipe/layer/contract/window.hpp>

namespace gpipe {

namespace detail {

template <class T, height_width Factor>
struct upsample_kernels {
  using value_type = T;
  using number = compute_type<T>;
  struct numbers {
    int channels, height, width;  ///< of the input

    GPIPE_HOST_DEVICE constexpr int out_width() const { return width * Factor.width; }
  };

  template <class Context, class A>
  static void forward(const Context& c, const A& a) {
    const numbers& sizes = a.sizes();
    c.rows(std::ptrdiff_t{a.samples()} * sizes.height * Factor.height * sizes.out_width(),
           repeat_pixels{a.in(), a.out(), sizes});
  }
  template <class Context, class A>
  static void backward_input(const Context& c, const A& a) {
    const numbers& sizes = a.sizes();
    if (a.in_gradient())
      c.rows(std::ptrdiff_t{a.samples()} * sizes.height * sizes.width,
             add_block{a.out_gradient(), a.in_gradient(), sizes});
  }

  // Rows are numbered over all samples: a sample's first row follows the previous sample's last.
  struct repeat_pixels {
    const T* in;
    T* out;
    numbers sizes;
    template <class Team>
    GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t pixel, const Team& team) const {
      const std::ptrdiff_t row = pixel / sizes.out_width() / Factor.height,
                           column = pixel % sizes.out_width() / Factor.width;
      const T* x = in + (row * sizes.width + column) * sizes.channels;
      T* y = out + pixel * sizes.channels;
      team.each(sizes.channels, [=](std::ptrdiff_t k) { y[k] = x[k]; });
    }
  };
  struct add_block {
    const T* out_gradient;
    T* in_gradient;
    numbers sizes;
    template <class Team>
    GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t pixel, const Team& team) const {
      const std::ptrdiff_t row = pixel / sizes.width * Factor.height, column = pixel % sizes.width * Factor.width,
                           C = sizes.channels, line = sizes.out_width() * C;
      const T* dy = out_gradient + row * line + column * C;
      T* dx = in_gradient + pixel * C;
      team.each(C, [=](std::ptrdiff_t k) {
        number sum = 0;
        for (int i = 0; i < Factor.height; ++i)
          for (int j = 0; j < Factor.width; ++j) sum += dy[i * line + j * C + k];
        dx[k] = sum;
      });
    }
  };
};

}  // namespace detail

/// Each pixel as a block of `Factor` pixels: PyTorch's Upsample with mode "nearest". `upsample<2>` makes
/// feature_map<T, C, H, W> a feature_map<T, C, 2 H, 2 W>.
template <height_width Factor>
struct upsample {
  static_assert(Factor.height > 0 && Factor.width > 0, "gpipe: upsample<Factor>: Factor must be at least 1");

  static constexpr detail::short_name shown_name = [] {
    detail::short_name name;
    name << "upsample<" << Factor << ">";
    return name;
  }();

  template <class In>
  struct on;

  template <detail::floating_map In>
  struct on<In> : of_kind<on<In>, detail::upsample_kernels<typename In::value_type, Factor>> {
    using T = typename In::value_type;
    using output = feature_map<T, In::channels, In::height * Factor.height, In::width * Factor.width>;
    static constexpr typename on::numbers sizes{In::channels, In::height, In::width};
    static constexpr work cost{.backward_input = static_cast<std::int64_t>(output::size),
                               .bytes = static_cast<std::int64_t>(sizeof(T) * (In::size + output::size))};
  };
};

}  // namespace gpipe
