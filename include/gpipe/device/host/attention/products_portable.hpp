#pragma once

#include <algorithm>
#include <cstddef>

#include <gpipe/core/config.hpp>
#include <gpipe/core/numbers/multiply_add.hpp>
#include <gpipe/device/host/gemm/gemm_tile.hpp>
#include <gpipe/device/host/gemm/narrow_block.hpp>
#include <gpipe/device/host/gemm/vector.hpp>

// Keeps the sums of a block in registers at -O2 too.
#ifdef __CUDACC__
#define GPIPE_UNROLL_ROWS
#else
#define GPIPE_UNROLL_ROWS _Pragma("GCC unroll 6")
#endif

namespace gpipe::host {

/// The products of attention's blocks; all matrices are row-major, and P has a row for each key:
///
///     scores      P[keys x queries]    = A[keys x width] * B[width x queries]
///     of_queries  C[queries x width] (+)= P[keys x queries]^T * B[keys x width]
///     of_keys     C[keys x width]    (+)= P[keys x queries] * B[queries x width]
enum class attention_product { scores, of_queries, of_keys };

/// The strides of a product C (+)= A * B, in elements from row to row, and the block's extents.
struct attention_strides {
  int queries, width, a, b, c;
};

/// Products in plain C++, for any machine and any floating-point type: up to six rows by two vectors, whose sums stay
/// in registers; where the machine can, a part of a vector is a `narrow_block`. Each sum is in ascending order, and
/// consists of the same operations in a block and in its remainder.
struct portable_products {
  template <class T, attention_product Product>
  struct table {
    attention_strides strides;

    explicit table(const attention_strides& given) : strides(given) {}
    void prepare(bool /*causal*/) const {}

    /// The product with `keys` keys and the queries from `query` on. The matrices begin at query 0.
    void operator()(int keys, int query, bool add, const T* a, const T* b, T* c) const {
      using detail::offset;
      if constexpr (Product == attention_product::scores)
        multiply<T, false>(keys, strides.queries - query, strides.width, a, strides.a, b + query, strides.b, c + query,
                           strides.c, add);
      else if constexpr (Product == attention_product::of_queries)
        multiply<T, true>(strides.queries - query, strides.width, keys, a + query, strides.a, b, strides.b,
                          c + offset(query, strides.c), strides.c, add);
      else
        multiply<T, false>(keys, strides.width, strides.queries - query, a + query, strides.a,
                           b + offset(query, strides.b), strides.b, c, strides.c, add);
    }
  };

 private:
  template <class T, bool Transposed>
  static void multiply(int rows, int columns, int k, const T* a, int lda, const T* b, int ldb, T* c, int ldc,
                       bool add) {
    const int last = columns % detail::vector<T>::width, whole = columns - last;
    if (narrow_block::fits<T>(columns) || (last > 0 && narrow_block::fits<T>(last))) {
      const int first = narrow_block::fits<T>(columns) ? 0 : whole;
      narrow_block::multiply<Transposed>(rows, columns - first, k, a, lda, b + first, ldb, c + first, ldc, add);
      if (first == 0) return;
      columns = first;
    }
    // Blocks of nearly equal height: a block of one or two rows would stall on its own sums.
    for (int done = 0, blocks = (rows + 5) / 6; blocks > 0; --blocks) {
      const int height = (rows - done + blocks - 1) / blocks;
      const T* a_rows = a + (Transposed ? done : detail::offset(done, lda));
      T* c_rows = c + detail::offset(done, ldc);
      switch (height) {
        case 6:
          strip<6, T, Transposed>(columns, k, a_rows, lda, b, ldb, c_rows, ldc, add);
          break;
        case 5:
          strip<5, T, Transposed>(columns, k, a_rows, lda, b, ldb, c_rows, ldc, add);
          break;
        case 4:
          strip<4, T, Transposed>(columns, k, a_rows, lda, b, ldb, c_rows, ldc, add);
          break;
        case 3:
          strip<3, T, Transposed>(columns, k, a_rows, lda, b, ldb, c_rows, ldc, add);
          break;
        case 2:
          strip<2, T, Transposed>(columns, k, a_rows, lda, b, ldb, c_rows, ldc, add);
          break;
        default:
          strip<1, T, Transposed>(columns, k, a_rows, lda, b, ldb, c_rows, ldc, add);
      }
      done += height;
    }
  }

  template <int Rows, class T, bool Transposed>
  GPIPE_OUT_OF_LINE static void strip(int columns, int k, const T* a, int lda, const T* b, int ldb, T* c, int ldc,
                                      bool add) {
    constexpr int width = detail::vector<T>::width;
    int column = 0;
    for (; column + 2 * width <= columns; column += 2 * width)
      sums<Rows, 2, T, Transposed>(k, a, lda, b + column, ldb, c + column, ldc, add);
    for (; column + width <= columns; column += width)
      sums<Rows, 1, T, Transposed>(k, a, lda, b + column, ldb, c + column, ldc, add);
    for (; column < columns; ++column)
      for (int r = 0; r < Rows; ++r) {
        T& out = c[detail::offset(r, ldc) + column];
        T sum = add ? out : T(0);
        for (int p = 0; p < k; ++p)
          sum = gpipe::detail::multiply_add(a[Transposed ? detail::offset(p, lda) + r : detail::offset(r, lda) + p],
                                            b[detail::offset(p, ldb) + column], sum);
        out = sum;
      }
  }

  template <int Rows, int Vectors, class T, bool Transposed>
  [[gnu::always_inline]] static inline void sums(int k, const T* a, int lda, const T* b, int ldb, T* c, int ldc,
                                                 bool add) {
    using vector = detail::vector<T>;
    typename vector::type sum[std::size_t{Rows}][2] = {};
    if (add) {
      GPIPE_UNROLL_ROWS
      for (int r = 0; r < Rows; ++r) {
        sum[r][0] = vector::load(c + detail::offset(r, ldc));
        if constexpr (Vectors == 2) sum[r][1] = vector::load(c + detail::offset(r, ldc) + vector::width);
      }
    }
    for (int p = 0; p < k; ++p, b += ldb, a += Transposed ? lda : 1) {
      const auto right0 = vector::load(b);
      auto right1 = right0;
      if constexpr (Vectors == 2) right1 = vector::load(b + vector::width);
      GPIPE_UNROLL_ROWS
      for (int r = 0; r < Rows; ++r) {
        const auto left = vector::repeat(a[Transposed ? std::ptrdiff_t{r} : detail::offset(r, lda)]);
        sum[r][0] = vector::multiply_add(left, right0, sum[r][0]);
        if constexpr (Vectors == 2) sum[r][1] = vector::multiply_add(left, right1, sum[r][1]);
      }
    }
    GPIPE_UNROLL_ROWS
    for (int r = 0; r < Rows; ++r) {
      vector::store(sum[r][0], c + detail::offset(r, ldc));
      if constexpr (Vectors == 2) vector::store(sum[r][1], c + detail::offset(r, ldc) + vector::width);
    }
  }
};

}  // namespace gpipe::host

#undef GPIPE_UNROLL_ROWS
