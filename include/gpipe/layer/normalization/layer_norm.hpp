#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include <gpipe/core/numbers/multiply_add.hpp>
#include <gpipe/core/tensors/array_function.hpp>
#include <gpipe/layer/contract/bound.hpp>
#include <gpipe/layer/contract/extents.hpp>
#include <gpipe/layer/contract/operands.hpp>
#include <gpipe/layer/normalization/mean_and_variance.hpp>
#include <gpipe/layer/normalization/row_gradient.hpp>

namespace gpipe {

namespace detail {

// One instance per width: sums over a row of constant width are faster, and round differently.
template <class T, int Width>
struct layer_norm_kernels {
  using value_type = T;
  using number = compute_type<T>;
  struct numbers : row_sizes {
    double epsilon;
  };
  static constexpr keep keeps{.input = true};

  template <class C, class A>
  static void forward(const C& c, const A& a) {
    c.rows(a.sizes().count(a.samples()), normalize{a.in(), a.template parameter<0>(), a.template parameter<1>(),
                                                   a.out(), statistics(a), a.sizes().epsilon});
  }
  template <class C, class A>
  static void backward_input(const C& c, const A& a) {
    if (a.in_gradient())
      c.rows(a.sizes().count(a.samples()), differentiate{a.in(), a.out_gradient(), a.template parameter<0>(),
                                                         a.in_gradient(), gradient_sum_of<T>(a), statistics(a)});
  }
  template <class C, class A>
  static void backward_parameters(const C& c, const A& a) {
    const std::ptrdiff_t count = a.sizes().count(a.samples());
    const int N = a.sizes().width;
    add_scale_gradients(c, count, N, of_weight{a.in(), a.out_gradient(), statistics(a)}, a.template gradient<0>(),
                        of_bias{a.out_gradient(), N}, a.template gradient<1>());
  }

  struct of_rows {
    number *mean, *inverse;  // the inverse standard deviation
  };
  template <class A>
  static of_rows statistics(const A& a) {
    return {a.template extra<0, number>(), a.template extra<1, number>()};
  }

  struct normalize {
    const T* in;
    const number *weight, *bias;
    T* out;
    of_rows found;
    double epsilon;
    static constexpr std::ptrdiff_t row_width() { return Width; }
    template <class Team>
    GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t row, const Team& team) const {
      const std::ptrdiff_t N = Width;
      const T* inputs = in + row * N;
      T* outputs = out + row * N;
      const auto value = [](std::ptrdiff_t i, auto x) { return number(x[i]); };
      const number mean = team.sum(N, array_function{value, inputs}) / number(N);
      const auto square = [mean](std::ptrdiff_t i, auto x) { return (x[i] - mean) * (x[i] - mean); };
      const number variance = team.sum(N, array_function{square, inputs}) / number(N);
      const number inverse = number(1) / std::sqrt(variance + number(epsilon));
      const auto write = [=](std::ptrdiff_t i, auto y, auto x, auto w, auto b) {
        y[i] = multiply_add<number>((x[i] - mean) * inverse, w[i], b[i]);
      };
      team.each(N, array_function{write, outputs, inputs, weight, bias});
      found.mean[row] = mean;
      found.inverse[row] = inverse;
    }
  };

  struct differentiate {
    const T *in, *out_gradient;
    const number* weight;
    T *in_gradient, *sum;
    of_rows found;
    static constexpr std::ptrdiff_t row_width() { return Width; }
    template <class Team>
    GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t row, const Team& team) const {
      const std::ptrdiff_t N = Width;
      const T *inputs = in + row * N, *slopes = out_gradient + row * N;
      const number mean = found.mean[row], inverse = found.inverse[row];
      const auto weighted = [](std::ptrdiff_t i, auto dy, auto w) { return dy[i] * w[i]; };
      const number along_one = team.sum(N, array_function{weighted, slopes, weight}) / number(N);
      const auto h = [=](std::ptrdiff_t i, auto dy, auto w, auto x) {
        return dy[i] * w[i] * ((x[i] - mean) * inverse);
      };
      const number along_h = team.sum(N, array_function{h, slopes, weight, inputs}) / number(N);
      const auto gradient = [=](std::ptrdiff_t i, auto dy, auto w, auto x) {
        return inverse *
               multiply_add<number>((mean - x[i]) * inverse, along_h, multiply_add<number>(dy[i], w[i], -along_one));
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
      return multiply_add<number>(dy[element], (x[element] - found.mean[row]) * found.inverse[row], sum);
    }
  };
  struct of_bias {
    const T* dy;
    int N;
    GPIPE_HOST_DEVICE number operator()(std::ptrdiff_t row, std::ptrdiff_t i) const { return dy[row * N + i]; }
  };
};

}  // namespace detail

/// Layer normalization over the last extent, N (Ba, Kiros, Hinton, 2016):
///
///     h = (x - mean) r,  r = 1 / sqrt(variance + epsilon),  y = weight h + bias
///     dx = r (g - mean of g - h mean of g h),  g = dy weight
///
/// Input and output tensor<T, ..., N>, weight {N} and bias {N}. The variance is the biased one, as in PyTorch. For bf16
/// it computes in float; mean and r are float.
template <mean_and_variance Setting = mean_and_variance{}>
struct layer_norm_with {
  static_assert(Setting.epsilon > 0, "gpipe: layer_norm_with<{.epsilon}>: epsilon must be above 0");

  template <class In>
  struct on;

  template <class T, int... Extents>
  requires(sizeof...(Extents) > 0 && detail::is_floating(dtype_of<T>)) struct on<tensor<T, Extents...>>
      : of_kind<on<tensor<T, Extents...>>, detail::layer_norm_kernels<T, detail::last_extent<tensor<T, Extents...>>>> {
    using output = tensor<T, Extents...>;
    static constexpr typename on::numbers sizes{detail::row_sizes_of<output>, Setting.epsilon};
    static constexpr int N = sizes.width, rows = sizes.rows;

    static constexpr parameter parameters[] = {{"weight", {N}, initializer::ones()}, {"bias", {N}}};
    static constexpr dtype statistics = dtype_of<compute_type<T>>;
    static constexpr buffer extras[] = {{"mean", rows, statistics}, {"deviation", rows, statistics}};
    static constexpr auto elements = static_cast<std::int64_t>(output::size);
    static constexpr work cost{.forward = 7 * elements,
                               .backward_input = 10 * elements,
                               .backward_parameters = 5 * elements,
                               .bytes = static_cast<std::int64_t>(2 * sizeof(T)) * elements};
  };
};

/// With an epsilon of 1e-5, PyTorch's LayerNorm.
struct layer_norm : layer_norm_with<> {};

}  // namespace gpipe
