#pragma once

#include <cstddef>

#include <gpipe/core/tensors/tensor.hpp>
#include <gpipe/layer/contract/description.hpp>
#include <gpipe/layer/contract/extents.hpp>
#include <gpipe/layer/contract/panels.hpp>
#include <gpipe/layer/contract/row_parts.hpp>

namespace gpipe::detail {

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

/// The common part of kernels whose parameters are those of products. `Kernels::product_gradients(c, a)` returns an
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
    decltype(Kernels::product_gradients(c, calls[0])) gradients[std::size_t{max_gradient_group}];
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

}  // namespace gpipe::detail
