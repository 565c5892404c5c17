#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <gpipe/layer/contract/bound.hpp>
#include <gpipe/layer/contract/extents.hpp>
#include <gpipe/layer/contract/operands.hpp>
#include <gpipe/layer/contract/panels.hpp>
#include <gpipe/layer/contract/row_parts.hpp>

namespace gpipe {

/// The option of a linear layer without a bias: `linear<512, no_bias>`.
struct no_bias {};

namespace detail {

template <int N, int K, class... Options>
struct linear_parameters {
  static constexpr parameter parameters[] = {{"weight", {N, K}, initializer::uniform(K)},
                                             {"bias", {N}, initializer::uniform(K)}};
};
template <int N, int K>
struct linear_parameters<N, K, no_bias> {
  static constexpr parameter parameters[] = {{"weight", {N, K}, initializer::uniform(K)}};
};

template <class T>
struct linear_kernels {
  using value_type = T;
  using number = compute_type<T>;
  static constexpr keep keeps{.input = true};
  struct numbers {
    int N, K, rows;  ///< the rows of a sample
    bool biased;
  };

  template <class C>
  static void prepare(const C& c, int samples, const numbers& sizes) {
    c.template prepare_multiply<T>(samples * sizes.rows, sizes.N, sizes.K);
    c.template prepare_multiply<T>(samples * sizes.rows, sizes.K, sizes.N);
    c.template prepare_multiply_transposed<T>(sizes.N, sizes.K, samples * sizes.rows);
  }

  template <class C, class A>
  static void refresh(const C& c, const A& a) noexcept {
    const auto [N, K, rows, biased] = a.sizes();
    const number* weight = a.template parameter<0>();
    if (a.refreshes_for_forward()) {
      c.pack(K, N, weight, K, true, a.template derived<0>());
      if (biased) round_bias(c, N, a.template parameter<1>(), a.template derived<2>());
    }
    if (a.refreshes_for_backward_input()) c.pack(N, K, weight, K, false, a.template derived<1>());
  }

  template <class C, class A>
  static void forward(const C& c, const A& a) {
    const auto [N, K, rows, biased] = a.sizes();
    const T* packed = a.template derived<0>();
    const T* rounded = a.template derived<2>();
    if (biased)
      multiply_plus_bias(c, a.samples() * rows, N, K, a.in(), packed, a.template parameter<1>(), rounded, a.out());
    else c.multiply(a.samples() * rows, N, K, a.in(), packed, a.out(), false);
  }

  /// dx = dy W
  template <class C, class A>
  static void backward_input(const C& c, const A& a) {
    const auto [N, K, rows, biased] = a.sizes();
    const T* packed = a.template derived<1>();
    if (T* dx = a.in_gradient()) c.multiply(a.samples() * rows, K, N, a.out_gradient(), packed, dx, false);
  }

  /// dW += dy^T x,  db += sum of dy over rows
  template <class C, class A>
  static void backward_parameters(const C& c, const A& a) {
    const auto [N, K, rows, biased] = a.sizes();
    c.multiply_transposed(N, K, a.samples() * rows, a.out_gradient(), a.in(), a.template gradient<0>());
    if (biased)
      c.columns(std::ptrdiff_t{a.samples()} * rows, N, row_major{a.out_gradient(), N}, a.template gradient<1>());
  }

  /// The same for several micro-batches, with the same bits: dW is read and written once.
  template <class C, class A>
  requires requires(const C& c, row_parts<T> in, number* out) { c.multiply_transposed(1, 1, 1, in, in, out); }
  static void backward_parameters(const C& c, const A& calls, int micro_batches) {
    const auto [N, K, rows, biased] = calls[0].sizes();
    row_parts<T> dy{{}, calls[0].samples() * rows}, x = dy;
    for (int i = 0; i < micro_batches; ++i) {
      dy.part[i] = calls[i].out_gradient();
      x.part[i] = calls[i].in();
    }
    c.multiply_transposed(N, K, calls.samples() * rows, dy, x, calls[0].template gradient<0>());
    if (biased)
      for (int i = 0; i < micro_batches; ++i)
        c.columns(std::ptrdiff_t{calls[i].samples()} * rows, N, row_major{dy.part[i], N},
                  calls[i].template gradient<1>());
  }

  struct row_major {
    const T* values;
    int N;
    GPIPE_HOST_DEVICE number operator()(std::ptrdiff_t row, std::ptrdiff_t column) const {
      return values[row * N + column];
    }
  };
};

}  // namespace detail

/// y = x W^T + b on the last extent, from K to N: PyTorch's Linear, with its layout and its initial values.
///
///     input tensor<T, ..., K>, output tensor<T, ..., N>, weight {N, K}, bias {N} unless the option is `no_bias`
///
/// Both products with the weight read a packed copy, made once per step. For bf16, packing rounds the weight.
template <int N, class... Options>
struct linear {
  static constexpr bool biased = sizeof...(Options) == 0;
  static_assert(sizeof...(Options) <= 1 && (std::is_same_v<Options, no_bias> && ...),
                "gpipe: linear<N> has one option: linear<N, no_bias>");

  template <class In>
  struct on;

  template <class T, int... Extents>
  requires(sizeof...(Extents) > 0 && detail::is_floating(dtype_of<T>)) struct on<tensor<T, Extents...>>
      : of_kind<on<tensor<T, Extents...>>, detail::linear_kernels<T>>,
        detail::linear_parameters<N, detail::last_extent<tensor<T, Extents...>>, Options...> {
    using layer = linear;
    using input = tensor<T, Extents...>;
    using output = detail::with_last<input, N>;
    static constexpr int K = detail::last_extent<input>, rows = detail::rows_in<input>;
    static constexpr typename on::numbers sizes{N, K, rows, biased};

    static constexpr buffer derived[] = {
        buffer::for_forward("forward", packed_size(K, N), dtype_of<T>),
        buffer::for_backward_input("backward", packed_size(N, K), dtype_of<T>),
        buffer::for_forward("bias", biased ? detail::rounded_bias_size<T>(N) : 0, dtype_of<T>)};
    static constexpr std::int64_t product = std::int64_t{2} * rows * K * N;
    static constexpr std::int64_t sums = biased ? std::int64_t{rows} * N : 0;
    static constexpr work cost{.forward = product + sums,
                               .backward_input = product,
                               .backward_parameters = product + sums,
                               .bytes = static_cast<std::int64_t>(sizeof(T)) * rows * (K + N),
                               .kind = work_kind::product};
  };
};

}  // namespace gpipe
