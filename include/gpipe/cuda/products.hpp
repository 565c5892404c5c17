#pragma once

#include <cstddef>
#include <type_traits>

#include <gpipe/core/tensors/dtype.hpp>
#include <gpipe/cuda/kernels/elements.hpp>
#include <gpipe/cuda/kernels/gemm.hpp>
#include <gpipe/cuda/kernels/launch.hpp>
#include <gpipe/cuda/kernels/reduction_kernels.hpp>
#include <gpipe/cuda/long_rows.hpp>
#include <gpipe/cuda/loops.hpp>
#include <gpipe/layer/contract/panels.hpp>

namespace gpipe::cuda {

/// A context's products of matrices, by cuBLASLt.
class products : public loops {
 public:
  using loops::loops;

  /// Packs the k x n matrix B for `multiply` into packed_size(k, n) elements, rounded if they are bf16. On a GPU these
  /// are rows, each padded with zeros to whole panels. The source is row-major, with `stride` elements from row to row;
  /// if transposed, the source is B^T, n x k.
  template <class T>
  void pack(int k, int n, const compute_type<T>* source, int stride, bool transposed, T* packed) const {
    if (!transposed)
      return each(static_cast<std::ptrdiff_t>(packed_size(k, n)),
                  detail::packing<T>{source, packed, n, product::padded(n), stride});
    constexpr dim3 threads(detail::transposing_tile, detail::transposing_lines);
    if (const std::ptrdiff_t tiles = detail::transposing_tiles(k, product::padded(n)); tiles > 0)
      enqueue([&] {
        cuda::launch(stream_, detail::blocks(tiles), threads, detail::transpose<T>, k, n, product::padded(n), source,
                     stride, packed);
      });
  }

  // assumes: half precision is bf16
  /// C[rows x n] = A[rows x k] * B[k x n], or C += A * B; all row-major, B packed. Sums of bf16 are in float, and each
  /// is rounded once, when it is complete.
  template <class T>
  void multiply(int rows, int n, int k, const T* a, const T* packed_b, T* c, bool accumulate) const {
    enqueue([&] {
      if constexpr (std::is_same_v<T, bf16>)
        if (long_rows::multiplies(n, k, accumulate))
          return long_rows(stream_, gemm_).multiply(rows, n, k, a, packed_b, c, accumulate);
      gemm_.run(product::by_packed<T>(rows, n, k), a, packed_b, c, accumulate);
    });
  }
  /// C = row + A * B: `row`, n elements, is added to each row of the product. If C is bf16, `row` is rounded first.
  template <class T>
  void multiply_plus(int rows, int n, int k, const T* a, const T* packed_b, const compute_type<T>* row, T* c) const {
    plus(product::by_packed<T>(rows, n, k), a, packed_b, row, c);
  }
  /// The same with a rounded row, in one kernel (see gpipe::detail::round_bias).
  void multiply_plus(int rows, int n, int k, const bf16* a, const bf16* packed_b, const bf16* row, bf16* c) const {
    plus(product::by_packed<bf16>(rows, n, k), a, packed_b, row, c);
  }
  /// H = row + A * B and Z = GELU(H) by its approximation, in one kernel if cuBLASLt has one; otherwise does nothing
  /// and returns false. Z is computed from the values of H before they are rounded.
  bool multiply_plus_gelu(int rows, int n, int k, const bf16* a, const bf16* packed_b, const bf16* row, bf16* h,
                          bf16* z) const {
    return with_gelu(epilogue::gelu_and_bias, rows, n, k, a, packed_b, row, h, z);
  }
  /// C = (A * B) GELU'(H), element by element, in one kernel; otherwise does nothing and returns false.
  bool multiply_gelu_gradient(int rows, int n, int k, const bf16* a, const bf16* packed_b, const bf16* h,
                              bf16* c) const {
    return with_gelu(epilogue::gelu_gradient, rows, n, k, a, packed_b, nullptr, const_cast<bf16*>(h), c);
  }

  /// Layers call these at construction for each product that they will run, with up to `max_rows` rows, so that a step
  /// makes nothing.
  template <class T>
  void prepare_multiply(int max_rows, int n, int k) const {
    prepare(product::by_packed<T>(max_rows, n, k), epilogue::bias);
    if constexpr (std::is_same_v<T, bf16>) long_rows(stream_, gemm_).prepare_multiply(max_rows, n, k);
  }
  /// For a product with GELU, n columns wide, and the one with GELU's gradient. A has k columns.
  void prepare_gelu(int max_rows, int n, int k) const {
    if (!allows_gelu(n)) return;
    product p = product::by_packed<bf16>(max_rows, n, k);
    p.fused_step = epilogue::gelu_and_bias, gemm_.prepare(p);
    p.fused_step = epilogue::gelu_gradient, gemm_.prepare(p);
  }

  // Operations that only GPUs have: a weight W {N, K} is read in place, without packing.

  /// C[rows x n] = row + A[rows x k] * W^T.
  template <class T>
  void multiply_by_weight(int rows, int n, int k, const T* a, const T* weight, const T* row, T* c) const {
    plus(product::by_weight<T>(rows, n, k, true), a, weight, row, c);
  }
  /// C[rows x k] = A[rows x n] * W.
  template <class T>
  void multiply_back(int rows, int n, int k, const T* a, const T* weight, T* c) const {
    enqueue([&] { gemm_.run(product::by_weight<T>(rows, k, n, false), a, weight, c); });
  }
  template <class T>
  void prepare_multiply_by_weight(int max_rows, int n, int k) const {
    prepare(product::by_weight<T>(max_rows, n, k, true), epilogue::bias);
  }
  template <class T>
  void prepare_multiply_back(int max_rows, int n, int k) const {
    prepare(product::by_weight<T>(max_rows, k, n, false), epilogue::none);
  }

 protected:
  GPIPE_COLD void prepare(product p, epilogue step) const {
    gemm_.prepare(p);
    p.fused_step = step;
    if (step != epilogue::none) gemm_.prepare(p);
  }

  // Row is T, or the type that T rounds.
  template <class T, class Row>
  void plus(product p, const T* a, const T* b, const Row* row, T* c) const {
    product with_bias = p;
    with_bias.fused_step = epilogue::bias;
    bool offered = false;
    enqueue([&] { offered = gemm_.fits_scratch<T>(p.n) && gemm_.offers(with_bias, a, b, c); });
    if (!offered) {
      each(std::ptrdiff_t{p.rows} * p.n, detail::repeat_row<Row, T>{row, c, p.n});
      return enqueue([&] { gemm_.run(p, a, b, c, true); });
    }
    const void* added = row;
    // A row that T rounds, or that is a part of another array, is copied.
    if (!std::is_same_v<T, Row> || product::alignment_of(row) < product::full_alignment) {
      each(p.n, detail::repeat_row<Row, T>{row, gemm_.scratch<T>(), p.n});
      added = gemm_.scratch<T>();
    }
    enqueue([&] { gemm_.run(with_bias, a, b, c, false, const_cast<void*>(added)); });
  }

 private:
  // cublasLt.h, EPILOGUE_AUX_LD: the leading dimension of H is a multiple of 8.
  static bool allows_gelu(int n) { return n % 8 == 0; }
  bool with_gelu(epilogue step, int rows, int n, int k, const bf16* a, const bf16* b, const bf16* row, bf16* h,
                 bf16* c) const {
    const auto aligned = [](const void* address) { return product::alignment_of(address) == product::full_alignment; };
    if (!allows_gelu(n) || !aligned(h) || (row != nullptr && !aligned(row))) return false;
    product p = product::by_packed<bf16>(rows, n, k);
    p.fused_step = step;
    bool offered = false;
    enqueue([&] {
      offered = gemm_.offers(p, a, b, c);
      if (offered) gemm_.run(p, a, b, c, false, const_cast<bf16*>(row), h);
    });
    return offered;
  }
};

}  // namespace gpipe::cuda
