#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include <gpipe/core/numbers/double_bits.hpp>
#include <gpipe/core/numbers/multiply_add.hpp>
#include <gpipe/core/tensors/array_function.hpp>
#include <gpipe/layer/contract/bound.hpp>
#include <gpipe/layer/contract/extents.hpp>
#include <gpipe/layer/contract/operands.hpp>
#include <gpipe/layer/normalization/row_gradient.hpp>

namespace gpipe {

namespace detail {

// One instance per width: sums over a row of constant width are faster, and round differently.
template <class T, int Width>
struct rms_norm_kernels {
  using value_type = T;
  using number = compute_type<T>;
  struct numbers : row_sizes {
    double epsilon;
  };
  static constexpr keep keeps{.input = true};

  template <class C, class A>
  static void forward(const C& c, const A& a) {
    c.rows(a.sizes().count(a.samples()),
           normalize{a.in(), a.template parameter<0>(), a.out(), statistics(a), a.sizes().epsilon});
  }
  template <class C, class A>
  static void backward_input(const C& c, const A& a) {
    if (a.in_gradient())
      c.rows(a.sizes().count(a.samples()), differentiate{a.in(), a.out_gradient(), a.template parameter<0>(),
                                                         statistics(a), a.in_gradient(), gradient_sum_of<T>(a)});
  }
  template <class C, class A>
  static void backward_parameters(const C& c, const A& a) {
    c.columns(a.sizes().count(a.samples()), a.sizes().width, of_weight{a.in(), a.out_gradient(), statistics(a)},
              a.template gradient<0>());
  }

  struct of_rows {
    number* inverse;  // r
    int N;
  };
  template <class A>
  static of_rows statistics(const A& a) {
    return {a.template extra<0, number>(), a.sizes().width};
  }

  struct normalize {
    const T* in;
    const number* weight;
    T* out;
    of_rows found;
    double epsilon;
    static constexpr std::ptrdiff_t row_width() { return Width; }
    template <class Team>
    GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t row, const Team& team) const {
      const std::ptrdiff_t N = Width;
      const T* inputs = in + row * N;
      T* outputs = out + row * N;
      const auto square = [](std::ptrdiff_t i, auto x) { return number(x[i]) * number(x[i]); };
      const number mean = team.sum(N, array_function{square, inputs}) / number(N);
      const number inverse = number(1) / std::sqrt(mean + number(epsilon));
      const auto write = [inverse](std::ptrdiff_t i, auto y, auto x, auto w) { y[i] = x[i] * inverse * w[i]; };
      team.each(N, array_function{write, outputs, inputs, weight});
      found.inverse[row] = inverse;
    }
  };

  struct differentiate {
    const T *in, *out_gradient;
    const number* weight;
    of_rows found;
    T *in_gradient, *sum;
    static constexpr std::ptrdiff_t row_width() { return Width; }
    template <class Team>
    GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t row, const Team& team) const {
      const std::ptrdiff_t N = Width;
      const T *inputs = in + row * N, *slopes = out_gradient + row * N;
      const number inverse = found.inverse[row];
      const auto h = [inverse](std::ptrdiff_t i, auto dy, auto w, auto x) { return dy[i] * w[i] * (x[i] * inverse); };
      const number along_h = team.sum(N, array_function{h, slopes, weight, inputs}) / number(N);
      const auto gradient = [=](std::ptrdiff_t i, auto dy, auto w, auto x) {
        return inverse * multiply_add<number>(x[i] * inverse, -along_h, dy[i] * w[i]);
      };
      write_gradient(team, N, gradient, in_gradient + row * N, sum == nullptr ? nullptr : sum + row * N, slopes, weight,
                     inputs);
    }
  };

  struct of_weight {
    const T *x, *dy;
    of_rows found;
    GPIPE_HOST_DEVICE number operator()(std::ptrdiff_t row, std::ptrdiff_t i) const {
      return (*this)(row, i, number(0));
    }
    GPIPE_HOST_DEVICE number operator()(std::ptrdiff_t row, std::ptrdiff_t i, number sum) const {
      const std::ptrdiff_t element = row * Width + i;
      return multiply_add<number>(dy[element], x[element] * found.inverse[row], sum);
    }
  };
};

}  // namespace detail

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
  requires(sizeof...(Extents) > 0 && detail::is_floating(dtype_of<T>)) struct on<tensor<T, Extents...>>
      : of_kind<on<tensor<T, Extents...>>, detail::rms_norm_kernels<T, detail::last_extent<tensor<T, Extents...>>>> {
    using output = tensor<T, Extents...>;
    static constexpr typename on::numbers sizes{detail::row_sizes_of<output>, Setting.epsilon};

    static constexpr parameter parameters[] = {{"weight", {sizes.width}, initializer::ones()}};
    static constexpr buffer extras[] = {{"inverse", static_cast<std::size_t>(sizes.rows), dtype_of<compute_type<T>>}};
    static constexpr auto elements = static_cast<std::int64_t>(output::size);
    static constexpr work cost{.forward = 4 * elements,
                               .backward_input = 8 * elements,
                               .backward_parameters = 3 * elements,
                               .bytes = static_cast<std::int64_t>(2 * sizeof(T)) * elements};
  };
};

/// With an epsilon of 1e-5.
struct rms_norm : rms_norm_with<> {};

}  // namespace gpipe
