#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include <gpipe/core/numbers/double_bits.hpp>
#include <gpipe/layer/contract/bound.hpp>
#include <gpipe/layer/contract/extents.hpp>
#include <gpipe/layer/contract/operands.hpp>

namespace gpipe {

/// The setting of a root mean square norm: `rms_norm_with<root_mean_square{.epsilon = 1e-6}>`.
struct root_mean_square {
  double_bits epsilon = 1e-5;
};

/// Division by the root mean square over the last extent, N (Zhang, Sennrich, 2019):
///
///     h = x r,  r = 1 / sqrt(mean of x^2 + epsilon),  y = weight h
///     dx = r (g - h mean of g h),  g = dy weight
///
/// Input and output tensor<T, ..., N>, weight {N}: PyTorch's RMSNorm and LLaMA's. For bf16 it computes in float; r is
/// float.
template <root_mean_square Setting = root_mean_square{}>
struct rms_norm_with {
  static_assert(Setting.epsilon >= 0, "gpipe: root_mean_square{.epsilon} must be at least 0");

  template <class In>
  struct on;

  template <class T, int... Extents>
  requires(sizeof...(Extents) > 0 && detail::is_floating(dtype_of<T>)) struct on<tensor<T, Extents...>> {
    using output = tensor<T, Extents...>;
    using number = compute_type<T>;
    static constexpr int N = detail::last_extent<output>, rows = detail::rows_in<output>;

    static constexpr parameter parameters[] = {{"weight", {N}, initialiser::ones()}};
    static constexpr buffer extras[] = {{"inverse", rows, dtype_of<number>}};
    static constexpr keep keeps{.input = true};
    static constexpr auto elements = static_cast<std::int64_t>(output::size);
    static constexpr work cost{.forward = 4 * elements,
                               .backward_input = 8 * elements,
                               .backward_parameters = 3 * elements,
                               .bytes = static_cast<std::int64_t>(2 * sizeof(T)) * elements};

    template <class C, class A>
    static void forward(const C& c, const A& a) {
      c.rows(std::ptrdiff_t{a.samples()} * rows,
             normalise{a.in(), a.template parameter<0>(), a.out(), a.template extra<0>()});
    }
    template <class C, class A>
    static void backward_input(const C& c, const A& a) {
      if (a.in_gradient())
        c.rows(std::ptrdiff_t{a.samples()} * rows, differentiate{a.in(), a.out_gradient(), a.template parameter<0>(),
                                                                 a.template extra<0>(), a.in_gradient()});
    }
    template <class C, class A>
    static void backward_parameters(const C& c, const A& a) {
      c.columns(std::ptrdiff_t{a.samples()} * rows, N, of_weight{a.in(), a.out_gradient(), a.template extra<0>()},
                a.template gradient<0>());
    }

    struct normalise {
      const T* in;
      const number* weight;
      T* out;
      number* found;  // r of each row
      template <class Team>
      GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t row, const Team& team) const {
        const T* x = in + row * N;
        const number* w = weight;
        T* y = out + row * N;
        const number mean =
            team.sum(N, [x](std::ptrdiff_t i) { return number(x[i]) * number(x[i]); }) / number(N);
        const number inverse = number(1) / std::sqrt(mean + number(Setting.epsilon));
        team.each(N, [=](std::ptrdiff_t i) { y[i] = x[i] * inverse * w[i]; });
        found[row] = inverse;
      }
    };

    struct differentiate {
      const T *in, *out_gradient;
      const number *weight, *found;
      T* in_gradient;
      template <class Team>
      GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t row, const Team& team) const {
        const T *x = in + row * N, *dy = out_gradient + row * N;
        const number* w = weight;
        T* dx = in_gradient + row * N;
        const number inverse = found[row];
        const number along_h =
            team.sum(N, [=](std::ptrdiff_t i) { return dy[i] * w[i] * (x[i] * inverse); }) / number(N);
        team.each(N, [=](std::ptrdiff_t i) { dx[i] = inverse * (dy[i] * w[i] - x[i] * inverse * along_h); });
      }
    };

    struct of_weight {
      const T *x, *dy;
      const number* found;
      GPIPE_HOST_DEVICE number operator()(std::ptrdiff_t row, std::ptrdiff_t i) const {
        return dy[row * N + i] * (x[row * N + i] * found[row]);
      }
    };
  };
};

/// With an epsilon of 1e-5.
struct rms_norm : rms_norm_with<> {};

}  // namespace gpipe
