#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <gpipe/core/tensors/tensor.hpp>
#include <gpipe/layer/contract/bound.hpp>
#include <gpipe/layer/contract/description.hpp>
#include <gpipe/layer/contract/extents.hpp>
#include <gpipe/layer/contract/operands.hpp>
#include <gpipe/layer/contract/panels.hpp>

namespace gpipe {

/// The option of a linear layer without a bias: `linear<512, no_bias>`.
struct no_bias {};

namespace detail {

/// The products of a layer with one of its weights, {N, K}: `forward` and `backward` are the weight's packed copies,
/// and `rows` counts the rows of all samples.
///
///     y = x W^T + b     x rows x K, y rows x N
///     dx = dy W,        dW += dy^T x,  db += the sum of dy over rows
template <class T>
struct weight_product {
  using number = compute_type<T>;
  int N, K;

  constexpr std::size_t packed_forward() const { return packed_size(K, N); }
  constexpr std::size_t packed_backward() const { return packed_size(N, K); }

  template <class C>
  void prepare(const C& c, int rows) const {
    c.template prepare_multiply<T>(rows, N, K);
    c.template prepare_multiply<T>(rows, K, N);
    c.template prepare_multiply_transposed<T>(N, K, rows);
  }

  /// Also the rounded copy of the bias, unless it is null.
  template <class C>
  void pack_forward(const C& c, const number* weight, T* forward, const number* bias = nullptr,
                    T* rounded = nullptr) const {
    c.pack(K, N, weight, K, true, forward);
    if (bias != nullptr) round_bias(c, N, bias, rounded);
  }
  template <class C>
  void pack_backward(const C& c, const number* weight, T* backward) const {
    c.pack(N, K, weight, K, false, backward);
  }

  /// The bias may be null, and so may its rounded copy: see multiply_plus_bias.
  template <class C>
  void apply(const C& c, int rows, const T* x, const T* forward, T* y, const number* bias = nullptr,
             const T* rounded = nullptr) const {
    if (bias == nullptr) c.multiply(rows, N, K, x, forward, y, false);
    else if (rounded == nullptr) c.multiply_plus(rows, N, K, x, forward, bias, y);
    else multiply_plus_bias(c, rows, N, K, x, forward, bias, rounded, y);
  }
  template <class C>
  void apply_back(const C& c, int rows, const T* dy, const T* backward, T* dx, bool accumulate = false) const {
    c.multiply(rows, K, N, dy, backward, dx, accumulate);
  }
};

/// The gradients of a product's parameters.
template <class T>
struct product_gradient {
  weight_product<T> product;
  const T *dy, *x;
  int rows;                       ///< of a sample
  compute_type<T>*weight, *bias;  ///< bias: null if there is none

  template <class C>
  void add(const C& c, int all_rows) const {
    c.multiply_transposed(product.N, product.K, all_rows, dy, x, weight);
    if (bias != nullptr) c.columns(std::ptrdiff_t{all_rows}, product.N, row_entries<T>{dy, product.N}, bias);
  }
};

/// A context adds up the parameter gradients of several micro-batches in one product.
template <class C, class T>
concept multiplies_parts = requires(const C& c, row_parts<T> in, compute_type<T>* out) {
  c.multiply_transposed(1, 1, 1, in, in, out);
};

/// The common part of kernels whose parameters belong to products. `Kernels::product_gradients(c, a)` returns an
/// array of their gradients; it makes each dy, if backward's input part does not run.
template <class Kernels, class T>
struct product_kernels {
  static constexpr keep keeps{.input = true};

  template <class C, class A>
  static void backward_parameters(const C& c, const A& a) {
    for (const product_gradient<T>& p : Kernels::product_gradients(c, a)) p.add(c, a.samples() * p.rows);
  }
  /// The same for several micro-batches, with the same bits: each dW is read and written once.
  template <class C, class A>
  requires multiplies_parts<C, T>
  static void backward_parameters(const C& c, const A& calls, int micro_batches) {
    decltype(Kernels::product_gradients(c, calls[0])) gradients[std::size_t{max_gradient_group}]{};
    for (int m = 0; m < micro_batches; ++m) gradients[m] = Kernels::product_gradients(c, calls[m]);
    for (std::size_t i = 0; i < gradients[0].size(); ++i) {
      const auto& [product, first_dy, first_x, rows, weight, bias] = gradients[0][i];
      row_parts<T> dy{{}, calls[0].samples() * rows}, x = dy;
      for (int m = 0; m < micro_batches; ++m) dy.part[m] = gradients[m][i].dy, x.part[m] = gradients[m][i].x;
      c.multiply_transposed(product.N, product.K, calls.samples() * rows, dy, x, weight);
      for (int m = 0; bias != nullptr && m < micro_batches; ++m)
        c.columns(std::ptrdiff_t{calls[m].samples()} * rows, product.N, row_entries<T>{dy.part[m], product.N}, bias);
    }
  }
};

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
struct linear_kernels : product_kernels<linear_kernels<T>, T> {
  using value_type = T;
  using number = compute_type<T>;
  struct numbers : weight_product<T> {
    int rows;  ///< of a sample
    bool biased;
  };

  template <class C>
  static void prepare(const C& c, int samples, const numbers& sizes) {
    sizes.prepare(c, samples * sizes.rows);
  }

  template <class C, class A>
  static void refresh(const C& c, const A& a) noexcept {
    const number* weight = a.template parameter<0>();
    if (a.refreshes_for_forward())
      a.sizes().pack_forward(c, weight, a.template derived<0>(), bias_of(a), a.template derived<2>());
    if (a.refreshes_for_backward_input()) a.sizes().pack_backward(c, weight, a.template derived<1>());
  }

  template <class C, class A>
  static void forward(const C& c, const A& a) {
    a.sizes().apply(c, a.samples() * a.sizes().rows, a.in(), a.template derived<0>(), a.out(), bias_of(a),
                    a.template derived<2>());
  }

  template <class C, class A>
  static void backward_input(const C& c, const A& a) {
    if (T* dx = a.in_gradient())
      a.sizes().apply_back(c, a.samples() * a.sizes().rows, a.out_gradient(), a.template derived<1>(), dx);
  }

  template <class C, class A>
  static std::array<product_gradient<T>, 1> product_gradients(const C&, const A& a) {
    return {{{a.sizes(), a.out_gradient(), a.in(), a.sizes().rows, a.template gradient<0>(),
              a.sizes().biased ? a.template gradient<1>() : nullptr}}};
  }

 private:
  template <class A>
  static const number* bias_of(const A& a) {
    return a.sizes().biased ? a.template parameter<1>() : nullptr;
  }
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
    static constexpr typename on::numbers sizes{{N, K}, rows, biased};

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
