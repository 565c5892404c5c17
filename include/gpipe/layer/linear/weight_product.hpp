#pragma once

#include <cstddef>

#include <gpipe/core/config.hpp>
#include <gpipe/core/tensors/tensor.hpp>
#include <gpipe/layer/contract/panels.hpp>
#include <gpipe/layer/contract/row_parts.hpp>

namespace gpipe::detail {

/// The products of a layer with one of its weights, {N, K}, for layers with several: `forward` and `backward` are the
/// weight's packed copies, and `rows` counts the rows of all samples.
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

  template <class C>
  void pack_forward(const C& c, const number* weight, T* forward) const {
    c.pack(K, N, weight, K, true, forward);
  }
  template <class C>
  void pack_backward(const C& c, const number* weight, T* backward) const {
    c.pack(N, K, weight, K, false, backward);
  }

  template <class C>
  void apply(const C& c, int rows, const T* x, const T* forward, T* y) const {
    c.multiply(rows, N, K, x, forward, y, false);
  }
  template <class C>
  void apply(const C& c, int rows, const T* x, const T* forward, const number* bias, T* y) const {
    c.multiply_plus(rows, N, K, x, forward, bias, y);
  }
  /// The same with a copy of the bias: see multiply_plus_bias.
  template <class C>
  void apply(const C& c, int rows, const T* x, const T* forward, const number* bias, const T* rounded, T* y) const {
    multiply_plus_bias(c, rows, N, K, x, forward, bias, rounded, y);
  }

  template <class C>
  void apply_back(const C& c, int rows, const T* dy, const T* backward, T* dx, bool accumulate = false) const {
    c.multiply(rows, K, N, dy, backward, dx, accumulate);
  }

  template <class C>
  void add_weight_gradient(const C& c, int rows, const T* dy, const T* x, number* gradient) const {
    c.multiply_transposed(N, K, rows, dy, x, gradient);
  }
  /// The same for the rows of several micro-batches, with the same bits.
  template <class C>
  void add_weight_gradient(const C& c, int rows, const row_parts<T>& dy, const row_parts<T>& x,
                           number* gradient) const {
    c.multiply_transposed(N, K, rows, dy, x, gradient);
  }
  template <class C>
  void add_bias_gradient(const C& c, int rows, const T* dy, number* gradient) const {
    c.columns(std::ptrdiff_t{rows}, N, entries{dy, N}, gradient);
  }

  struct entries {
    const T* values;
    int N;
    GPIPE_HOST_DEVICE number operator()(std::ptrdiff_t row, std::ptrdiff_t column) const {
      return values[row * N + column];
    }
  };
};

/// A context adds up the parameter gradients of several micro-batches in one product.
template <class C, class T>
concept multiplies_parts = requires(const C& c, row_parts<T> in, compute_type<T>* out) {
  c.multiply_transposed(1, 1, 1, in, in, out);
};

}  // namespace gpipe::detail
