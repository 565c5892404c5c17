#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <gpipe/core/config.hpp>
#include <gpipe/core/tensors/dtype.hpp>
#include <gpipe/cuda/kernels/gemm.hpp>
#include <gpipe/cuda/kernels/launch.hpp>
#include <gpipe/cuda/kernels/reduction_kernels.hpp>
#include <gpipe/cuda/stream/stream.hpp>
#include <gpipe/layer/contract/panels.hpp>

namespace gpipe::cuda {

namespace detail {

/// The columns of a row that a block of `copy_rows` copies: threads x elements per thread.
inline constexpr int copying_threads = 256, copied_at_once = 8, copied_columns = copying_threads * copied_at_once;
GPIPE_HOST_DEVICE inline std::ptrdiff_t parts_of_row(int columns) {
  return (columns + copied_columns - 1) / copied_columns;
}

/// Copies a matrix {rows, columns} to rows with other gaps, one element at a time: rows may begin anywhere.
template <class T>
__global__ void __launch_bounds__(copying_threads)
    copy_rows(std::ptrdiff_t rows, int columns, const T* source, int source_stride, T* target, int target_stride) {
  const std::ptrdiff_t parts = parts_of_row(columns);
  for (std::ptrdiff_t index = blockIdx.x; index < rows * parts; index += gridDim.x) {
    const std::ptrdiff_t row = index / parts;
    const int first = static_cast<int>(index % parts) * copied_columns + static_cast<int>(threadIdx.x);
    T held[copied_at_once];
    _Pragma("unroll") for (int i = 0; i < copied_at_once; ++i) if (const int column = first + i * copying_threads;
                                                                   column < columns) held[i] =
        source[row * source_stride + column];
    _Pragma("unroll") for (int i = 0; i < copied_at_once; ++i) if (const int column = first + i * copying_threads;
                                                                   column < columns)
        target[row * target_stride + column] = held[i];
  }
}

GPIPE_HOST_DEVICE constexpr int whole_terms(int k) { return k / 8 * 8; }

/// Adds the terms from `whole_terms(k)` on to a product's sums, and rounds these.
struct last_terms {
  const float* sums;
  const bf16 *a, *b;
  bf16* c;
  int n, b_stride, k;
  bool accumulate;
  GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const {
    const std::ptrdiff_t row = i / n;
    const auto column = static_cast<int>(i % n);
    float sum = sums[i];
    for (int t = whole_terms(k); t < k; ++t)
      sum += static_cast<float>(a[row * k + t]) * static_cast<float>(b[std::ptrdiff_t{t} * b_stride + column]);
    if (accumulate) sum += static_cast<float>(c[i]);
    c[i] = bf16(sum);
  }
};

}  // namespace detail

// assumes: half precision is bf16
/// Products of bf16 with long rows that begin anywhere, such as rows of 50,257 words. cuBLASLt's fast kernels need rows
/// aligned to 16 bytes, and other kernels take more than three times as long (bench/gpu_times). These products are
/// copied through the scratch in parts, with gaps between the rows:
///
///     C  | first rows   |  <- copy -  | rows with gaps |  <- product
///        | the next     |  <- copy -  | the same place |  <- product
///
/// or, for rows or columns of A, in the other direction. Each sum is in float and rounded once.
class long_rows {
 public:
  long_rows(const stream& queue, gemm& products) : stream_(queue), gemm_(products) {}

  /// Whether C[rows x n] = A[rows x k] * B[k x n] is computed so.
  static bool multiplies(int n, int k, bool accumulate) { return (!accumulate && part(n) > 0) || part(k, n) > 0; }
  /// B is packed, as for context::multiply.
  void multiply(int rows, int n, int k, const bf16* a, const bf16* packed_b, bf16* c, bool accumulate) const {
    if (!accumulate && part(n) > 0) multiply_into(rows, n, k, a, packed_b, c);
    else multiply_from(rows, n, k, a, packed_b, c, accumulate);
  }
  GPIPE_COLD void prepare_multiply(int max_rows, int n, int k) const {
    if (const int most = part(n); most > 0) gemm_.prepare(padded_result((std::min)(max_rows, most), n, k));
    if (const int most = part(k, n); most > 0) gemm_.prepare(padded_factor((std::min)(max_rows, most), n, k));
  }

  /// Whether C[m x n] += A[rows x m]^T * B[rows x n] is computed so.
  static bool multiplies_transposed(int m, int rows) { return columns(m, rows) > 0; }
  void multiply_transposed(int m, int n, int rows, const bf16* a, const bf16* b, float* c) const {
    auto* const held = gemm_.scratch<bf16>();
    const int most = columns(m, rows);
    for (int first = 0; first < m; first += most) {
      const int count = (std::min)(m - first, most);
      copy(rows, count, a + first, m, held, most);
      gemm_.run(transposed(count, most, n, rows), held, b, c + std::ptrdiff_t{first} * n, true);
    }
  }
  /// All numbers of rows that share an algorithm have parts of as many columns.
  GPIPE_COLD void prepare_multiply_transposed(int m, int n, int max_rows) const {
    const int last = gemm::enough(max_rows);
    for (int rows = 1;; rows = gemm::enough(rows + 1)) {
      if (const int most = columns(m, rows); most > 0) {
        gemm_.choose(transposed((std::min)(m, most), most, n, rows));
        if (m % most != 0) gemm_.choose(transposed(m % most, most, n, rows));
      }
      if (rows >= last) return;
    }
  }

 private:
  static constexpr int long_row = 4096, rows_of_tile = 128;
  static bool begins_anywhere(int columns) {
    return columns >= long_row && columns % (gemm::vector_bytes / static_cast<int>(sizeof(bf16))) != 0;
  }

  /// The rows of a part, each with `floats` sums in float; 0: the product needs no copy.
  static int part(int columns, int floats = 0) {
    if (!begins_anywhere(columns)) return 0;
    const std::size_t bytes = sizeof(bf16) * packed_size(1, columns) + sizeof(float) * static_cast<std::size_t>(floats);
    const auto rows = static_cast<int>(gemm::scratch_bytes / bytes);
    return rows < rows_of_tile ? rows : rows / rows_of_tile * rows_of_tile;
  }
  /// The columns of A that are copied to the scratch at a time; 0: the product needs no copy.
  static int columns(int m, int rows) {
    if (!begins_anywhere(m)) return 0;
    const auto held = static_cast<std::ptrdiff_t>(gemm::scratch_bytes / sizeof(bf16)) / gemm::enough(rows);
    return static_cast<int>((std::min)(held, std::ptrdiff_t{product::padded(m)})) / rows_of_tile * rows_of_tile;
  }

  static product padded_result(int rows, int n, int k) { return product::by_packed<bf16>(rows, product::padded(n), k); }
  void multiply_into(int rows, int n, int k, const bf16* a, const bf16* packed_b, bf16* c) const {
    auto* const held = gemm_.scratch<bf16>();
    const int most = part(n);
    for (std::ptrdiff_t first = 0; first < rows; first += most) {
      const int count = static_cast<int>((std::min)(rows - first, std::ptrdiff_t{most}));
      gemm_.run(padded_result(count, n, k), a + first * k, packed_b, held);
      copy(count, n, held, product::padded(n), c + first * n, n);
    }
  }

  // cuBLASLt's fast kernels also need a multiple of 8 terms: the remaining terms are added to sums in float.
  static product padded_factor(int rows, int n, int k) {
    product p = product::by_packed<bf16>(rows, n, detail::whole_terms(k));
    p.out = library_type<float>, p.a_stride = product::padded(k);
    return p;
  }
  void multiply_from(int rows, int n, int k, const bf16* a, const bf16* packed_b, bf16* c, bool accumulate) const {
    auto* const held = gemm_.scratch<bf16>();
    const int most = part(k, n), stride = product::padded(k);
    auto* const sums = reinterpret_cast<float*>(held + std::ptrdiff_t{most} * stride);
    for (std::ptrdiff_t first = 0; first < rows; first += most) {
      const int count = static_cast<int>((std::min)(rows - first, std::ptrdiff_t{most}));
      const bf16* const source = a + first * k;
      copy(count, k, source, k, held, stride);
      gemm_.run(padded_factor(count, n, k), held, packed_b, sums);
      for_each(stream_, std::ptrdiff_t{count} * n,
               detail::last_terms{sums, source, packed_b, c + first * n, n, product::padded(n), k, accumulate});
    }
  }

  static product transposed(int m, int a_stride, int n, int rows) {
    product p = product::of_transposed<bf16>(m, n, rows);
    p.a_stride = a_stride;
    return p;
  }

  void copy(std::ptrdiff_t rows, int columns, const bf16* source, int source_stride, bf16* target,
            int target_stride) const {
    const std::ptrdiff_t blocks = rows * detail::parts_of_row(columns);
    if (blocks > 0)
      cuda::launch(stream_, detail::blocks(blocks), dim3(detail::copying_threads), detail::copy_rows<bf16>, rows,
                   columns, source, source_stride, target, target_stride);
  }

  const stream& stream_;
  gemm& gemm_;
};

}  // namespace gpipe::cuda
