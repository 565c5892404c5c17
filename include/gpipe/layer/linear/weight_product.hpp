#pragma once

#include <cstddef>

#include <gpipe/core/config.hpp>
#include <gpipe/core/tensors/tensor.hpp>
#include <gpipe/layer/contract/panels.hpp>
#include <gpipe/layer/contract/row_parts.hpp>

namespace gpipe::detail {

/// The products of a layer with one of its weights, {N, K}, for layers with several: `forward` and `backward` are the
/// weight's packed copies, and `rows` are those of all samples.
///
///     y = x W^T + b     x rows x K, y rows x N
///     dx = dy W,        dW += dy^T x,  db += the sum of dy over rows
template <class T, int N, int K>
struct weight_product {
  using number = compute_type<T>;
  static constexpr std::size_t packed_forward = packed_size(K, N), packed_backward = packed_size(N, K);

  template <class C>
  static void prepare(const C& c, int rows) {
    c.template prepare_multiply<T>(rows, N, K);
    c.template prepare_multiply<T>(rows, K, N);
    c.template prepare_multiply_transposed<T>(N, K, rows);
  }

  template <class C>
  static void pack(const C& c, const number* weight, T* forward, T* backward) {
    c.pack(K, N, weight, K, true, forward);
    c.pack(N, K, weight, K, false, backward);
  }

  template <class C>
  static void apply(const C& c, int rows, const T* x, const T* forward, T* y) {
    c.multiply(rows, N, K, x, forward, y, false);
  }
  template <class C>
  static void apply(const C& c, int rows, const T* x, const T* forward, const number* bias, T* y) {
    c.multiply_plus(rows, N, K, x, forward, bias, y);
  }

  template <class C>
  static void apply_back(const C& c, int rows, const T* dy, const T* backward, T* dx, bool accumulate = false) {
    c.multiply(rows, K, N, dy, backward, dx, accumulate);
  }

  template <class C>
  static void add_weight_gradient(const C& c, int rows, const T* dy, const T* x, number* into) {
    c.multiply_transposed(N, K, rows, dy, x, into);
  }
  /// The same for the rows of several micro-batches, with the same bits.
  template <class C>
  static void add_weight_gradient(const C& c, int rows, const row_parts<T>& dy, const row_parts<T>& x, number* into) {
    c.multiply_transposed(N, K, rows, dy, x, into);
  }
  template <class C>
  static void add_bias_gradient(const C& c, int rows, const T* dy, number* into) {
    c.columns(std::ptrdiff_t{rows}, N, entries{dy}, into);
  }

  struct entries {
    const T* values;
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
