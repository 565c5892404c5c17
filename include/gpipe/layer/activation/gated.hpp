#pragma once

#include <cstddef>
#include <cstdint>

#include <gpipe/layer/contract/bound.hpp>
#include <gpipe/layer/contract/extents.hpp>
#include <gpipe/layer/contract/operands.hpp>
#include <gpipe/layer/contract/pointwise.hpp>

namespace gpipe {

/// A gated linear unit (Dauphin et al., 2017; Shazeer, 2020): one half of the last extent, after a function of each
/// element, times the other half:
///
///     x = [a b],  y = f(a) b,    da = dy b f'(a),  db = dy f(a)
///
///     input tensor<T, ..., 2 N>, output tensor<T, ..., N>
///
/// The function is an activation that ships, or one of your own (see `pointwise`): `linear<2 * 64>, gated<silu>`.
template <class Function>
struct gated {
  template <class T>
  struct kind_for {
    using value_type = T;
    using number = compute_type<T>;
    using numbers = detail::row_sizes;  // of the output
    static constexpr keep keeps{.input = true};

    template <class C, class A>
    static void forward(const C& c, const A& a) {
      c.rows(a.sizes().count(a.samples()), apply{a.in(), a.out(), a.sizes().width});
    }
    template <class C, class A>
    static void backward_input(const C& c, const A& a) {
      if (a.in_gradient())
        c.rows(a.sizes().count(a.samples()), chain{a.in(), a.out_gradient(), a.in_gradient(), a.sizes().width});
    }

    struct apply {
      const T* in;
      T* out;
      std::ptrdiff_t N;
      template <class Team>
      GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t row, const Team& team) const {
        const T *x = in + row * 2 * N, *factor = x + N;
        T* y = out + row * N;
        team.each(N, [=](std::ptrdiff_t i) {
          y[i] = detail::value_and_slope<Function>(number(x[i])).value * number(factor[i]);
        });
      }
    };
    struct chain {
      const T *in, *out_gradient;
      T* in_gradient;
      std::ptrdiff_t N;
      template <class Team>
      GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t row, const Team& team) const {
        const T *x = in + row * 2 * N, *factor = x + N, *dy = out_gradient + row * N;
        T *dx = in_gradient + row * 2 * N, *dfactor = dx + N;
        team.each(N, [=](std::ptrdiff_t i) {
          const value_and_derivative<number> f = detail::value_and_slope<Function>(number(x[i]));
          const number gradient = dy[i];
          dx[i] = gradient * number(factor[i]) * f.derivative;
          dfactor[i] = gradient * f.value;
        });
      }
    };
  };

  template <class In>
  struct on;

  template <class T, int... Extents>
  requires(sizeof...(Extents) > 0 && detail::is_floating(dtype_of<T>) &&
           detail::last_extent<tensor<T, Extents...>> % 2 == 0) struct on<tensor<T, Extents...>>
      : of_kind<on<tensor<T, Extents...>>,
                typename gated<typename detail::function_of<Function>::type>::template kind_for<T>> {
    using input = tensor<T, Extents...>;
    using output = detail::with_last<input, detail::last_extent<input> / 2>;
    static constexpr detail::row_sizes sizes = detail::row_sizes_of<output>;
    static constexpr auto elements = static_cast<std::int64_t>(output::size);
    static constexpr work cost{.forward = 20 * elements,
                               .backward_input = 25 * elements,
                               .bytes = static_cast<std::int64_t>(3 * sizeof(T)) * elements};
  };
};

}  // namespace gpipe
