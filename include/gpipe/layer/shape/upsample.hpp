#pragma once

#include <cstddef>
#include <cstdint>

#include <gpipe/core/tensors/feature_map.hpp>
#include <gpipe/layer/contract/bound.hpp>
#include <gpipe/layer/contract/operands.hpp>
#include <gpipe/layer/contract/window.hpp>

namespace gpipe {

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
  struct on<In> {
    using T = typename In::value_type;
    using number = compute_type<T>;
    static constexpr int C = In::channels;
    using output = feature_map<T, C, In::height * Factor.height, In::width * Factor.width>;
    static constexpr work cost{.backward_input = static_cast<std::int64_t>(output::size),
                               .bytes = static_cast<std::int64_t>(sizeof(T) * (In::size + output::size))};

    template <class Context, class A>
    static void forward(const Context& c, const A& a) {
      c.rows(a.samples() * static_cast<std::ptrdiff_t>(output::pixels), repeat_pixels{a.in(), a.out()});
    }
    template <class Context, class A>
    static void backward_input(const Context& c, const A& a) {
      if (a.in_gradient())
        c.rows(a.samples() * static_cast<std::ptrdiff_t>(In::pixels), add_block{a.out_gradient(), a.in_gradient()});
    }

    // Rows of all samples are counted on: a sample's first row follows the last of the sample before.
    struct repeat_pixels {
      const T* in;
      T* out;
      template <class Team>
      GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t pixel, const Team& team) const {
        const std::ptrdiff_t row = pixel / output::width / Factor.height, column = pixel % output::width / Factor.width;
        const T* x = in + (row * In::width + column) * C;
        T* y = out + pixel * C;
        team.each(C, [=](std::ptrdiff_t k) { y[k] = x[k]; });
      }
    };
    struct add_block {
      const T* out_gradient;
      T* in_gradient;
      template <class Team>
      GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t pixel, const Team& team) const {
        const std::ptrdiff_t row = pixel / In::width * Factor.height, column = pixel % In::width * Factor.width;
        const T* dy = out_gradient + (row * output::width + column) * C;
        T* dx = in_gradient + pixel * C;
        team.each(C, [=](std::ptrdiff_t k) {
          number sum = 0;
          for (int i = 0; i < Factor.height; ++i)
            for (int j = 0; j < Factor.width; ++j) sum += dy[(i * output::width + j) * C + k];
          dx[k] = sum;
        });
      }
    };
  };
};

}  // namespace gpipe
