#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <gpipe/core/config.hpp>
#include <gpipe/core/tensors/dtype.hpp>
#include <gpipe/core/tensors/lanes.hpp>
#include <gpipe/device/host/gemm/vector.hpp>
#include <gpipe/layer/contract/panels.hpp>

// Keeps the sums of a block in registers at -O2 too.
#ifdef __CUDACC__
#define GPIPE_UNROLL_ROWS
#else
#define GPIPE_UNROLL_ROWS _Pragma("GCC unroll 12")
#endif

namespace gpipe::host {

namespace detail {

constexpr std::ptrdiff_t offset(int index, int stride) { return std::ptrdiff_t{index} * stride; }

template <class T>
const T* moved(const T* pointer, unsigned long long bytes) {
  return reinterpret_cast<const T*>(reinterpret_cast<std::uintptr_t>(pointer) + bytes);
}

}  // namespace detail

/// A product c[rows x columns] (+)= a[rows x k] * b[k x columns] of row-major matrices; if transposed, a[k x rows].
struct block_shape {
  int rows, columns, k, lda, ldc;
  bool accumulate, transposed;
  int ldb = panel_width;
  bool alone = false;  ///< no panel follows that could be prefetched
  bool operator==(const block_shape&) const = default;
};

/// The operands of products that are added up, at offsets in bytes from the first.
struct product_taps {
  const unsigned long long *a, *b;
  int count;
};

/// Products in plain C++, for any machine and any floating-point type: up to six rows by two vectors, whose sums stay
/// in registers (twelve of sixteen under AVX2). The last one or two vectors of columns are computed one at a time,
/// twelve rows high: six would leave half of the registers empty, and a sum waits for its last product. Each operation
/// is explicit, so a high block and a low one round alike.
///
///            b0 b1          one row of B: two loads
///       a0 [ .. .. ]
///       a1 [ .. .. ]        one element of each row of A, spread over a vector
///       a5 [ .. .. ]
class product_block {
 public:
  /// The product, by the extents of `shape`. Elements of bf16 are converted to float, and sums rounded to the type of
  /// c.
  template <bool Transposed, class T>
  static void multiply(const block_shape& shape, const T* a, const T* b, T* c) {
    each_column<Transposed>(shape, a, b, c, one_tap{});
  }
  /// The same with a panel as b.
  template <bool Transposed, class T>
  static void multiply_panel(const block_shape& shape, const T* a, const T* b, T* c) {
    each_column<Transposed>(shape, a, b, c, one_panel{});
  }
  /// The sum of the products of all taps; then adds `row` to each row, if it is not null.
  template <bool Transposed, class T, class Result>
  static void add_up(const block_shape& shape, const T* a, const T* b, Result* c, const product_taps& taps,
                     const compute_type<T>* row) {
    each_column<Transposed>(shape, a, b, c, taps_and_row<compute_type<T>>{taps, row});
  }

 private:
  struct one_tap {
    static constexpr unsigned long long a[1] = {}, b[1] = {};
    static constexpr int count = 1;
    static constexpr bool adds_row = false;
    static int b_stride(const block_shape& shape) { return shape.ldb; }
    one_tap from_column(int) const { return {}; }
  };
  struct one_panel : one_tap {  // a constant stride takes 1 % less time
    static int b_stride(const block_shape&) { return panel_width; }
    one_panel from_column(int) const { return {}; }
  };
  template <class Number>
  struct taps_and_row : product_taps {
    static constexpr bool adds_row = true;
    const Number* row;
    static int b_stride(const block_shape& shape) { return shape.ldb; }
    taps_and_row from_column(int column) const { return {*this, row == nullptr ? nullptr : row + column}; }
  };

  template <bool Transposed, class T, class Result, class Terms>
  static void each_column(const block_shape& shape, const T* a, const T* b, Result* c, Terms terms) {
    constexpr int width = detail::vector<compute_type<T>>::width, high = std::is_same_v<T, compute_type<T>> ? 6 : 4;
    const int wide = shape.columns - shape.columns % (2 * width);
    if (wide > 0) each_row<high, 2, Transposed>(shape, wide, a, b, c, terms);
    for (int first = wide; first < shape.columns; first += width)
      each_row<2 * high, 1, Transposed>(shape, (std::min)(shape.columns - first, width), a, b + first, c + first,
                                        terms.from_column(first));
  }

  template <int Highest, int Vectors, bool Transposed, class T, class Result, class Terms>
  static void each_row(const block_shape& shape, int columns, const T* a, const T* b, Result* c, Terms terms) {
    // Blocks of nearly equal height: a block of one or two rows would stall on its own sums.
    for (int done = 0, blocks = (shape.rows + Highest - 1) / Highest; blocks > 0; --blocks) {
      const int height = (shape.rows - done + blocks - 1) / blocks;
      block<Highest, Vectors, Transposed>(height, shape, columns,
                                          a + (Transposed ? done : detail::offset(done, shape.lda)), b,
                                          c + detail::offset(done, shape.ldc), terms);
      done += height;
    }
  }

  template <int Rows, int Vectors, bool Transposed, class T, class Result, class Terms>
  static void block(int rows, const block_shape& shape, int columns, const T* a, const T* b, Result* c, Terms terms) {
    if (rows == Rows) return sums<Rows, Vectors, Transposed>(shape, columns, a, b, c, terms);
    if constexpr (Rows > 1) block<Rows - 1, Vectors, Transposed>(rows, shape, columns, a, b, c, terms);
  }

  // Two vectors of columns at a time, or at most one.
  template <int Rows, int Vectors, bool Transposed, class T, class Result, class Terms>
  GPIPE_OUT_OF_LINE static void sums(const block_shape& shape, int columns, const T* a, const T* b, Result* c,
                                     Terms terms) {
    using vector = detail::vector<compute_type<T>>;
    const int k = shape.k, lda = shape.lda, ldb = Terms::b_stride(shape), ldc = shape.ldc;
    const bool accumulate = shape.accumulate;
    for (int first = 0; first < columns; first += Vectors * vector::width) {
      Result* const out = c + first;
      typename vector::type sum[std::size_t{Rows}][std::size_t{Vectors}] = {};
      if (accumulate) {
        GPIPE_UNROLL_ROWS
        for (int r = 0; r < Rows; ++r) load(out + detail::offset(r, ldc), columns - first, sum[r]);
      }
      for (int tap = 0; tap < terms.count; ++tap) {
        const T* left = detail::moved(a, terms.a[tap]);
        const T* right = detail::moved(b, terms.b[tap]) + first;
        for (int p = 0; p < k; ++p, right += ldb, left += Transposed ? lda : 1) {
          typename vector::type values[std::size_t{Vectors}];
          load(right, columns - first, values);
          GPIPE_UNROLL_ROWS
          for (int r = 0; r < Rows; ++r) {
            const auto repeated = vector::repeat(left[Transposed ? std::ptrdiff_t{r} : detail::offset(r, lda)]);
            sum[r][0] = vector::multiply_add(repeated, values[0], sum[r][0]);
            if constexpr (Vectors == 2) sum[r][1] = vector::multiply_add(repeated, values[1], sum[r][1]);
          }
        }
      }
      if constexpr (Terms::adds_row)
        if (terms.row != nullptr) {
          typename vector::type added[std::size_t{Vectors}];
          load(terms.row + first, columns - first, added);
          GPIPE_UNROLL_ROWS
          for (int r = 0; r < Rows; ++r) {
            sum[r][0] += added[0];
            if constexpr (Vectors == 2) sum[r][1] += added[1];
          }
        }
      GPIPE_UNROLL_ROWS
      for (int r = 0; r < Rows; ++r) store(sum[r], columns - first, out + detail::offset(r, ldc));
    }
  }

  template <class T, class Vector, std::size_t Vectors>
  [[gnu::always_inline]] static inline void load(const T* source, int columns, Vector (&target)[Vectors]) {
    using number = compute_type<T>;
    constexpr int width = detail::vector<number>::width;
    if constexpr (Vectors == 2) {
      for (int v = 0; v < 2; ++v) target[v] = gpipe::detail::lanes<T, width>::load(source + v * width);
    } else if constexpr (std::is_same_v<T, number>) {
      target[0] = detail::load_first(source, columns);
    } else {
      number some[std::size_t{width}] = {};
      for (int i = 0; i < columns; ++i) some[i] = source[i];
      target[0] = detail::vector<number>::load(some);
    }
  }
  template <class T, class Vector, std::size_t Vectors>
  [[gnu::always_inline]] static inline void store(const Vector (&sum)[Vectors], int columns, T* target) {
    using number = compute_type<T>;
    constexpr int width = detail::vector<number>::width;
    if constexpr (Vectors == 2) {
      for (int v = 0; v < 2; ++v) gpipe::detail::lanes<T, width>::store(sum[v], target + v * width);
    } else if constexpr (std::is_same_v<T, number>) {
      detail::store_first(sum[0], target, columns);
    } else {
      number some[std::size_t{width}];
      detail::vector<number>::store(sum[0], some);
      for (int i = 0; i < columns; ++i) target[i] = static_cast<T>(some[i]);
    }
  }
};

}  // namespace gpipe::host

#undef GPIPE_UNROLL_ROWS
