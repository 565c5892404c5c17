#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <gpipe/core/config.hpp>
#include <gpipe/core/numbers/multiply_add.hpp>
#include <gpipe/device/contract/device_concept.hpp>
#include <gpipe/device/host/attention/attention.hpp>
#include <gpipe/device/host/column_sums.hpp>
#include <gpipe/device/host/convolution/convolution.hpp>
#include <gpipe/device/host/gemm/gemm.hpp>
#include <gpipe/device/host/gemm/gemm_tile.hpp>
#include <gpipe/device/host/gemm/transpose.hpp>
#include <gpipe/device/host/team.hpp>
#include <gpipe/layer/contract/attention_shape.hpp>
#include <gpipe/layer/contract/convolution_shape.hpp>
#include <gpipe/layer/contract/panels.hpp>

namespace gpipe::host {

// change: a kernel operation
/// Runs the kernels of layers on the calling thread. A kernel uses only operations of a context, so that the same
/// source runs on other devices. The operations take objects with a `GPIPE_HOST_DEVICE` operator(), of a type that is
/// not private, with raw pointers inside. No operation allocates or keeps anything, and each gives the same bits for
/// the same values on every thread and from every caller: operations that round are out of line (see
/// GPIPE_OUT_OF_LINE), and sums have a fixed order.
template <class Gemm, class Attention = attention, class Convolution = convolution>
struct basic_context {
  /// f(i) for i in [0, n), in any order.
  template <class F>
  GPIPE_OUT_OF_LINE void each(std::ptrdiff_t n, F f) const {
    for (std::ptrdiff_t i = 0; i < n; ++i) f(i);
  }

  /// f(row, team) for row in [0, count), in any order. The team runs loops and reductions over the row's elements.
  template <class F>
  GPIPE_OUT_OF_LINE void rows(std::ptrdiff_t count, F f) const {
    for (std::ptrdiff_t row = 0; row < count; ++row) f(row, team{});
  }

  /// sums[j] += f(0, j) + f(1, j) + ... + f(rows - 1, j) for j in [0, n): up to 64 rows in this order, more in blocks
  /// (see column_sums).
  template <class F, class T>
  GPIPE_OUT_OF_LINE void columns(std::ptrdiff_t rows, std::ptrdiff_t n, F f, T* sums) const {
    detail::column_sums<F, T>{f, rows}.add_to(n, sums);
  }

  /// *result = f(0) + ... + f(n - 1), in double and in a fixed order.
  template <class F>
  GPIPE_OUT_OF_LINE void sum(std::ptrdiff_t n, F f, double* result) const {
    *result = team{}.sum(n, detail::in_double<F>{f});
  }
  /// The same in ascending order, for the rows of a loss: rows of zeros among them, such as padding, change no bit.
  template <class F>
  GPIPE_OUT_OF_LINE void sum_rows(std::ptrdiff_t n, F f, double* result) const {
    constexpr std::ptrdiff_t chunk = 64;
    double value[std::size_t{chunk}], total = 0;
    for (std::ptrdiff_t first = 0; first < n; first += chunk) {
      const std::ptrdiff_t count = (std::min)(chunk, n - first);
      for (std::ptrdiff_t i = 0; i < count; ++i) value[i] = static_cast<double>(f(first + i));
      gpipe::detail::keep_rounded(value);
      for (std::ptrdiff_t i = 0; i < count; ++i) total += value[i];
    }
    *result = total;
  }

  template <class T>
  void copy(std::ptrdiff_t n, const T* source, T* target) const {
    std::copy_n(source, n, target);
  }
  template <class T>
  void fill(std::ptrdiff_t n, T value, T* target) const {
    std::fill_n(target, n, value);
  }
  /// target[i] += source[i], each sum rounded once.
  template <class T>
  void add(std::ptrdiff_t n, const T* source, T* target) const {
    each(n, detail::add_to<T>{source, target});
  }

  // change: an element type; of tokens
  /// target[indices[r]][j] += scale * source[r][j] for each row r in [0, count), in this order, and j in [0, width).
  template <class T>
  GPIPE_OUT_OF_LINE void add_rows(std::ptrdiff_t count, std::ptrdiff_t width, const std::int32_t* indices,
                                  const T* source, compute_type<T> scale, compute_type<T>* target) const {
    for (std::ptrdiff_t row = 0; row < count; ++row) {
      team{}.each(width,
                  detail::add_scaled<T>{source + row * width, scale, target + std::ptrdiff_t{indices[row]} * width});
    }
  }

  /// Packs the k x n matrix B for `multiply` into packed_size(k, n) elements, rounded if they are bf16. The source is
  /// row-major, with `stride` elements from row to row; if transposed, the source is B^T, n x k.
  template <class T>
  GPIPE_OUT_OF_LINE void pack(int k, int n, const compute_type<T>* source, int stride, bool transposed,
                              T* packed) const {
    for (int first = 0; first < n; first += panel_width) {
      const int width = (std::min)(panel_width, n - first);
      if (width < panel_width) fill(std::ptrdiff_t{k} * panel_width, T(0), packed);
      if (transposed) {
        // Squares of a panel's width: read along the source's rows, written into a part that stays in the cache.
        for (int square = 0; square < k; square += panel_width)
          transpose((std::min)(panel_width, k - square), width, source + std::ptrdiff_t{first} * stride + square,
                    stride, packed + std::ptrdiff_t{square} * panel_width, panel_width);
      } else {
        for (int row = 0; row < k; ++row)
          std::copy_n(source + std::ptrdiff_t{row} * stride + first, width, packed + std::ptrdiff_t{row} * panel_width);
      }
      packed += std::ptrdiff_t{k} * panel_width;
    }
  }

  /// C[rows x n] = A[rows x k] * B[k x n], or C += A * B; all row-major, B packed. Sums of bf16 are in float, and each
  /// is rounded once, when it is complete.
  template <class T>
  void multiply(int rows, int n, int k, const T* a, const T* packed_b, T* c, bool accumulate) const {
    Gemm::multiply(rows, n, k, a, packed_b, c, accumulate);
  }
  /// The same plus `row`, n elements, added to each row of the product: C = row + A * B.
  template <class T>
  void multiply_plus(int rows, int n, int k, const T* a, const T* packed_b, const compute_type<T>* row, T* c) const {
    Gemm::multiply(rows, n, k, a, packed_b, c, false, row);
  }
  /// C[m x n] += A[rows x m]^T * B[rows x n]; all row-major.
  template <class T>
  void multiply_transposed(int m, int n, int rows, const T* a, const T* b, compute_type<T>* c) const {
    multiply_transposed(m, n, rows, row_parts<T>{{a}, rows}, row_parts<T>{{b}, rows}, c);
  }
  /// The same, with the rows in several parts of A and B, and the bits of one product after the other. The same
  /// `prepare_multiply_transposed` prepares it.
  template <class T>
  void multiply_transposed(int m, int n, int rows, const row_parts<T>& a, const row_parts<T>& b,
                           compute_type<T>* c) const {
    Gemm::multiply_transposed(m, n, rows, a, b, c);
  }

  /// A layer calls these at construction for each product that it will run, with up to `max_rows` rows, so that nothing
  /// is made in a step.
  template <class T>
  void prepare_multiply(int /*max_rows*/, int n, int k) const {
    Gemm::template prepare_multiply<T>(n, k);
  }
  template <class T>
  void prepare_multiply_transposed(int m, int n, int /*max_rows*/) const {
    Gemm::template prepare_multiply_transposed<T>(m, n);
  }

  // change: an operation on attention probabilities
  /// o = softmax(scale q k^T) v of every head, and log_sums[sample][head][query] = log sum_j e^s_ij (see
  /// attention_shape). `lengths` has the number of each sample's keys that count; null: all. A query that sees no key
  /// gives o = 0 and log sum -infinity. Keys beyond the length are not read. A row has the same bits whatever the other
  /// queries and later keys are, if they are finite: a query with a cache of keys gives the bits of the whole sequence.
  template <class T>
  void attention(const attention_shape& shape, const T* q, const T* k, const T* v, const std::int32_t* lengths, T* o,
                 compute_type<T>* log_sums) const {
    Attention::forward(shape, q, k, v, lengths, o, log_sums);
  }
  // change: an operation on attention probabilities
  /// The gradients of q, k and v, from the gradient of o; `attention` has written o and log_sums. Overwrites d_q, d_k
  /// and d_v. The heads that share a key head are added up in ascending order.
  template <class T>
  void attention_backward(const attention_shape& shape, const T* q, const T* k, const T* v, const std::int32_t* lengths,
                          const T* o, const compute_type<T>* log_sums, const T* d_o, T* d_q, T* d_k, T* d_v) const {
    Attention::backward(shape, q, k, v, lengths, o, log_sums, d_o, d_q, d_k, d_v);
  }
  /// A layer calls this at construction for each attention that it will run, with its largest number of samples.
  template <class T>
  void prepare_attention(const attention_shape& shape) const {
    Attention::template prepare<T>(shape);
  }

  /// y = x * w + bias (see convolution_shape); no bias if it is null. `pack_convolution` has written `packed`.
  template <class T>
  void convolve(const convolution_shape& shape, const T* x, const T* packed, const compute_type<T>* bias, T* y) const {
    Convolution::forward(shape, x, packed, bias, y);
  }
  /// The gradient of x, from the gradient of y. `pack_convolution_backward` has written `packed`.
  template <class T>
  void convolve_backward_input(const convolution_shape& shape, const T* dy, const T* packed, T* dx) const {
    Convolution::backward_input(shape, dy, packed, dx);
  }
  /// dw += the gradient of the weight. Samples are added one after the other, so several calls have the bits of one.
  template <class T>
  void convolve_backward_weight(const convolution_shape& shape, const T* x, const T* dy, compute_type<T>* dw) const {
    Convolution::backward_weight(shape, x, dy, dw);
  }
  /// The same, with the samples in several parts of x and of dy.
  template <class T>
  void convolve_backward_weight(const convolution_shape& shape, const row_parts<T>& x, const row_parts<T>& dy,
                                compute_type<T>* dw) const {
    Convolution::backward_weight(shape, x, dy, dw);
  }
  /// Packs a weight {KH, KW, C / G, K} into convolution_packed_size(shape) elements, rounded if they are bf16.
  template <class T>
  void pack_convolution(const convolution_shape& shape, const compute_type<T>* weight, T* packed) const {
    Convolution::pack(shape, weight, packed);
  }
  template <class T>
  void pack_convolution_backward(const convolution_shape& shape, const compute_type<T>* weight, T* packed) const {
    Convolution::pack_backward(shape, weight, packed);
  }
  /// A layer calls this at construction for each convolution that it will run.
  template <class T>
  void prepare_convolution(const convolution_shape& shape) const {
    Convolution::template prepare<T>(shape);
  }

  // The runtime's part: all is executed at once, and the arena is the host's memory.
  void upload(std::ptrdiff_t bytes, const std::byte* source, std::byte* target) const { copy(bytes, source, target); }
  void download(std::ptrdiff_t bytes, const std::byte* source, std::byte* target) const { copy(bytes, source, target); }
  void mark(unmarked&) const {}
  void await(unmarked&) const {}
  void finish() const {}
};

/// The host's context. Its matrix products are libxsmm's if the build has it, else gpipe's own.
#if GPIPE_WITH_LIBXSMM
using context = basic_context<gemm_with_bf16<libxsmm_tile>>;
#else
using context = basic_context<gemm_with_bf16<portable_tile>>;
#endif

}  // namespace gpipe::host
