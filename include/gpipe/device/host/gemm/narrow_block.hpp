#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <gpipe/core/config.hpp>
#include <gpipe/device/host/gemm/gemm_tile.hpp>
#include <gpipe/device/host/gemm/vector.hpp>

// Keeps the sums of a block in registers at -O2 too.
#ifdef __CUDACC__
#define GPIPE_UNROLL_ROWS
#else
#define GPIPE_UNROLL_ROWS _Pragma("GCC unroll 12")
#endif

namespace gpipe::host {

/// Products of at most one vector of columns, computed up to twelve rows at once. Two vectors of six rows
/// would leave half of the registers empty, and a sum waits for its last product:
///
///            b        one row of B: one load
///       a0 [ .. ]
///       a1 [ .. ]     one element of each row of A, spread over a vector
///       a11[ .. ]
class narrow_block {
 public:
  /// The operands of products that are added up, at offsets in bytes from the first.
  struct taps {
    const unsigned long long *a, *b;
    int count;
  };

  template <class T>
  static constexpr bool fits(int columns) {
    return columns == detail::vector<T>::width || (detail::has_masks && columns < detail::vector<T>::width);
  }

  /// c[rows x columns] (+)= the sum of a[rows x k] * b[k x columns] over the taps; transposed: a[k x rows].
  template <bool Transposed, class T>
  static void multiply(int rows, int columns, int k, const T* a, int lda, const T* b, int ldb, T* c, int ldc, bool add,
                       const taps& terms) {
    // Blocks of nearly equal height: a block of one or two rows would stall on its own sums.
    for (int done = 0, blocks = (rows + highest - 1) / highest; blocks > 0; --blocks) {
      const int height = (rows - done + blocks - 1) / blocks;
      block<highest, Transposed>(height, columns, k, a + (Transposed ? done : detail::offset(done, lda)), lda, b, ldb,
                                 c + detail::offset(done, ldc), ldc, add, terms);
      done += height;
    }
  }
  /// One product.
  template <bool Transposed, class T>
  static void multiply(int rows, int columns, int k, const T* a, int lda, const T* b, int ldb, T* c, int ldc,
                       bool add) {
    constexpr unsigned long long first = 0;
    multiply<Transposed>(rows, columns, k, a, lda, b, ldb, c, ldc, add, {&first, &first, 1});
  }

 private:
  static constexpr int highest = 12;

  template <int Rows, bool Transposed, class T>
  static void block(int rows, int columns, int k, const T* a, int lda, const T* b, int ldb, T* c, int ldc, bool add,
                    const taps& terms) {
    if (rows == Rows) return sums<Rows, Transposed>(columns, k, a, lda, b, ldb, c, ldc, add, terms);
    if constexpr (Rows > 1) block<Rows - 1, Transposed>(rows, columns, k, a, lda, b, ldb, c, ldc, add, terms);
  }

  template <int Rows, bool Transposed, class T>
  GPIPE_OUT_OF_LINE static void sums(int columns, int k, const T* a, int lda, const T* b, int ldb, T* c, int ldc,
                                     bool add, const taps& terms) {
    using vector = detail::vector<T>;
    typename vector::type sum[std::size_t{Rows}] = {};
    if (add) {
      GPIPE_UNROLL_ROWS
      for (int r = 0; r < Rows; ++r) sum[r] = detail::load_first(c + detail::offset(r, ldc), columns);
    }
    for (int tap = 0; tap < terms.count; ++tap) {
      const T* left = moved(a, terms.a[tap]);
      const T* right = moved(b, terms.b[tap]);
      for (int p = 0; p < k; ++p, right += ldb, left += Transposed ? lda : 1) {
        const auto values = detail::load_first(right, columns);
        GPIPE_UNROLL_ROWS
        for (int r = 0; r < Rows; ++r)
          sum[r] = vector::multiply_add(vector::repeat(left[Transposed ? r : detail::offset(r, lda)]), values, sum[r]);
      }
    }
    GPIPE_UNROLL_ROWS
    for (int r = 0; r < Rows; ++r) detail::store_first(sum[r], c + detail::offset(r, ldc), columns);
  }

  template <class T>
  static const T* moved(const T* pointer, unsigned long long bytes) {
    return reinterpret_cast<const T*>(reinterpret_cast<std::uintptr_t>(pointer) + bytes);
  }
};

}  // namespace gpipe::host

#undef GPIPE_UNROLL_ROWS
