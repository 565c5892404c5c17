#pragma once

#include <cstddef>
#include <cstdint>

#include <gpipe/layer/contract/bound.hpp>
#include <gpipe/layer/contract/extents.hpp>
#include <gpipe/layer/contract/operands.hpp>

namespace gpipe {

/// y = x + b, with a trained number for each element of the last extent, N; b begins at 0.
///
///     input and output tensor<T, ..., N>, bias {N}
struct bias {
  template <class In>
  struct on;

  template <class T, int... Extents>
  requires(sizeof...(Extents) > 0 && detail::is_floating(dtype_of<T>)) struct on<tensor<T, Extents...>> {
    using output = tensor<T, Extents...>;
    using number = compute_type<T>;
    static constexpr int N = detail::last_extent<output>, rows = detail::rows_in<output>;

    static constexpr parameter parameters[] = {{"bias", {N}, initializer::zeros()}};
    static constexpr auto elements = static_cast<std::int64_t>(output::size);
    static constexpr work cost{.forward = elements,
                               .backward_parameters = elements,
                               .bytes = static_cast<std::int64_t>(2 * sizeof(T)) * elements};

    template <class C, class A>
    static void forward(const C& c, const A& a) {
      c.rows(std::ptrdiff_t{a.samples()} * rows, shift{a.in(), a.template parameter<0>(), a.out()});
    }
    template <class C, class A>
    static void backward_input(const C& c, const A& a) {
      if (a.in_gradient()) c.copy(a.samples() * elements, a.out_gradient(), a.in_gradient());
    }
    template <class C, class A>
    static void backward_parameters(const C& c, const A& a) {
      c.columns(std::ptrdiff_t{a.samples()} * rows, N, of_bias{a.out_gradient()}, a.template gradient<0>());
    }

    struct shift {
      const T* in;
      const number* bias;
      T* out;
      static constexpr std::ptrdiff_t row_width() { return N; }
      template <class Team>
      GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t row, const Team& team) const {
        const T* x = in + row * N;
        const number* b = bias;
        T* y = out + row * N;
        team.each(N, [=](std::ptrdiff_t i) { y[i] = x[i] + b[i]; });
      }
    };

    struct of_bias {
      const T* dy;
      GPIPE_HOST_DEVICE number operator()(std::ptrdiff_t row, std::ptrdiff_t i) const { return dy[row * N + i]; }
    };
  };
};

}  // namespace gpipe
