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

namespace gpipe {

/// The setting of a normalization by mean and variance: `layer_norm_with<mean_and_variance{.epsilon = 1e-6}>`,
/// `group_norm_with<8, mean_and_variance{.epsilon = 1e-6}>`.
struct mean_and_variance {
  double_bits epsilon = 1e-5;
};

namespace detail {

/// Adds the sums over rows of f(row, j) to weight[j], and of g(row, j) to bias[j]: by one kernel if the context has
/// one.
template <class C, class F, class G, class T>
void add_scale_gradients(const C& c, std::ptrdiff_t rows, std::ptrdiff_t n, const F& f, T* weight, const G& g,
                         T* bias) {
  if constexpr (requires { c.columns(rows, n, f, weight, g, bias); }) {
    c.columns(rows, n, f, weight, g, bias);
  } else {
    c.columns(rows, n, f, weight);
    c.columns(rows, n, g, bias);
  }
}

/// The array to which a norm's backward adds the gradient of its input, or null: then the executor adds it, by a
/// separate kernel. Only numbers that are rounded between the two have the same bits either way, because no
/// multiplication is fused with the addition.
template <class T, class A>
T* gradient_sum_of(const A& a) {
  if constexpr (std::is_same_v<T, compute_type<T>>) return nullptr;
  else return a.gradient_sum();
}

/// dx[i] = gradient(i, dy, weight, x) for a row, and sum[i] += dx[i] if there is a sum; T rounds both.
template <class T, class Team, class F>
GPIPE_HOST_DEVICE void write_gradient(const Team& team, std::ptrdiff_t n, const F& gradient, T* dx, T* sum, const T* dy,
                                      const compute_type<T>* weight, const T* x) {
  if constexpr (!std::is_same_v<T, compute_type<T>>) {
    if (sum != nullptr) {
      const auto write_and_add = [gradient](std::ptrdiff_t i, auto result, auto total, auto slopes, auto scale,
                                            auto input, auto before) {
        const T rounded(gradient(i, slopes, scale, input));
        result[i] = rounded;
        total[i] = before[i] + compute_type<T>(rounded);
      };
      const T* const before = sum;
      return team.each(n, array_function{write_and_add, dx, sum, dy, weight, x, before});
    }
  }
  const auto write = [gradient](std::ptrdiff_t i, auto result, auto slopes, auto scale, auto input) {
    result[i] = gradient(i, slopes, scale, input);
  };
  team.each(n, array_function{write, dx, dy, weight, x});
}

/// The kernels of `layer_norm`, and of `rms_norm`, which is not centered: it subtracts no mean and adds no bias. One
/// instance per width: sums over a row of constant width are faster, and round differently.
template <class T, int Width, bool Centered>
struct row_norm_kernels {
  using value_type = T;
  using number = compute_type<T>;
  struct numbers : row_sizes {
    double epsilon;
  };
  static constexpr keep keeps{.input = true};

  template <class C, class A>
  static void forward(const C& c, const A& a) {
    const number* bias = nullptr;
    if constexpr (Centered) bias = a.template parameter<1>();
    c.rows(a.sizes().count(a.samples()),
           normalize{a.in(), a.template parameter<0>(), bias, a.out(), statistics(a), a.sizes().epsilon});
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
    const of_weight weight{a.in(), a.out_gradient(), statistics(a)};
    if constexpr (Centered)
      add_scale_gradients(c, count, a.sizes().width, weight, a.template gradient<0>(),
                          row_entries<T>{a.out_gradient(), a.sizes().width}, a.template gradient<1>());
    else c.columns(count, a.sizes().width, weight, a.template gradient<0>());
  }

  struct of_rows {
    number *mean, *inverse;  // the inverse standard deviation, or root mean square
    GPIPE_HOST_DEVICE number mean_of(std::ptrdiff_t row) const {
      if constexpr (Centered) return mean[row];
      else return 0;
    }
  };
  template <class A>
  static of_rows statistics(const A& a) {
    if constexpr (Centered) return {a.template extra<0, number>(), a.template extra<1, number>()};
    else return {nullptr, a.template extra<0, number>()};
  }
  template <class X>
  GPIPE_HOST_DEVICE static number centered(X x, number mean) {
    if constexpr (Centered) return x - mean;
    else return x;
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
      number mean = 0;
      if constexpr (Centered) {
        const auto value = [](std::ptrdiff_t i, auto x) { return number(x[i]); };
        mean = team.sum(N, array_function{value, inputs}) / number(N);
      }
      const auto square = [mean](std::ptrdiff_t i, auto x) { return centered(x[i], mean) * centered(x[i], mean); };
      const number variance = team.sum(N, array_function{square, inputs}) / number(N);
      const number inverse = number(1) / std::sqrt(variance + number(epsilon));
      if constexpr (Centered) {
        const auto write = [=](std::ptrdiff_t i, auto y, auto x, auto w, auto b) {
          y[i] = multiply_add<number>((x[i] - mean) * inverse, w[i], b[i]);
        };
        team.each(N, array_function{write, outputs, inputs, weight, bias});
        found.mean[row] = mean;
      } else {
        const auto write = [inverse](std::ptrdiff_t i, auto y, auto x, auto w) { y[i] = x[i] * inverse * w[i]; };
        team.each(N, array_function{write, outputs, inputs, weight});
      }
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
      const number mean = found.mean_of(row), inverse = found.inverse[row];
      number along_one = 0;
      if constexpr (Centered) {
        const auto weighted = [](std::ptrdiff_t i, auto dy, auto w) { return dy[i] * w[i]; };
        along_one = team.sum(N, array_function{weighted, slopes, weight}) / number(N);
      }
      const auto h = [=](std::ptrdiff_t i, auto dy, auto w, auto x) {
        return dy[i] * w[i] * (centered(x[i], mean) * inverse);
      };
      const number along_h = team.sum(N, array_function{h, slopes, weight, inputs}) / number(N);
      const auto gradient = [=](std::ptrdiff_t i, auto dy, auto w, auto x) {
        if constexpr (Centered)
          return inverse *
                 multiply_add<number>((mean - x[i]) * inverse, along_h, multiply_add<number>(dy[i], w[i], -along_one));
        else return inverse * multiply_add<number>(x[i] * inverse, -along_h, dy[i] * w[i]);
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
      return multiply_add<number>(dy[element], centered(x[element], found.mean_of(row)) * found.inverse[row], sum);
    }
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
      : of_kind<on<tensor<T, Extents...>>,
                detail::row_norm_kernels<T, detail::last_extent<tensor<T, Extents...>>, true>> {
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
