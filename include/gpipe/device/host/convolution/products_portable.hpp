#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <gpipe/core/config.hpp>
#include <gpipe/core/tensors/dtype.hpp>
#include <gpipe/device/host/convolution/convolution_plan.hpp>
#include <gpipe/device/host/gemm/narrow_block.hpp>
#include <gpipe/device/host/gemm/vector.hpp>

// Keeps the sums of a block in registers at -O2 too.
#ifdef __CUDACC__
#define GPIPE_UNROLL_ROWS
#else
#define GPIPE_UNROLL_ROWS _Pragma("GCC unroll 4")
#endif

namespace gpipe::host {

namespace detail {

template <class T>
const T* moved(const T* pointer, unsigned long long bytes) {
  return reinterpret_cast<const T*>(reinterpret_cast<std::uintptr_t>(pointer) + bytes);
}

}  // namespace detail

/// The products of a convolution's plan in plain C++, for any machine and any floating-point type: blocks of up to four
/// rows by two vectors, whose sums stay in registers. A sum runs over taps, then over k, in ascending order. If it is
/// added to C, it begins with C, so that several products have the bits of one. A bias is added at the end.
struct portable_taps {
  /// m is 32 floats, or as many bytes of another type, so that a strip of any machine is whole vectors.
  template <class T>
  static constexpr int strip = 128 / static_cast<int>(sizeof(compute_type<T>));

  /// Runs the products of one plan: Transposed for backward_weight, whose C is in the type of sums.
  template <class T, bool Transposed>
  class program {
   public:
    using number = compute_type<T>;
    using result = std::conditional_t<Transposed, number, T>;

    GPIPE_COLD program(convolution_plan source_plan, int m) : plan_(std::move(source_plan)), m_(m) {}
    const convolution_plan& plan() const { return plan_; }

    /// The product for `samples` samples, a power of two. `row` is added to each row of C, if it is not null.
    void run(const convolution_plan::product& product, int samples, const convolution_plan::tap_list& taps, const T* a,
             const T* b, const number* row, result* c) const {
      const int count = product.n * samples;
      if constexpr (std::is_same_v<T, number>)
        if (narrow_block::fits<T>(m_)) return narrow(product, count, taps, a, b, row, c);
      int n = 0;
      for (; n + 4 <= count; n += 4) rows<4>(product, n, taps, a, b, row, c);
      for (; n < count; ++n) rows<1>(product, n, taps, a, b, row, c);
    }

   private:
    using vector = detail::vector<number>;

    void narrow(const convolution_plan::product& product, int count, const convolution_plan::tap_list& taps, const T* a,
                const T* b, const number* row, number* c) const {
      narrow_block::multiply<Transposed>(count, m_, product.k, b, product.b_stride, a, product.a_stride, c,
                                         product.c_stride, Transposed, {taps.b, taps.a, taps.count});
      if (row == nullptr) return;
      for (int i = 0; i < count; ++i, c += product.c_stride)
        for (int j = 0; j < m_; ++j) c[j] += row[j];
    }

    template <int Rows>
    void rows(const convolution_plan::product& product, int n, const convolution_plan::tap_list& taps, const T* a,
              const T* b, const number* row, result* c) const {
      b += Transposed ? n : std::ptrdiff_t{n} * product.b_stride;
      c += std::ptrdiff_t{n} * product.c_stride;
      for (int first = 0; first < m_; first += 2 * vector::width) {
        const int left = m_ - first;
        const number* start = row == nullptr ? nullptr : row + first;
        if (left >= 2 * vector::width) block<Rows, true>(product, left, taps, a + first, b, start, c + first);
        else block<Rows, false>(product, left, taps, a + first, b, start, c + first);
      }
    }

    template <int Rows, bool Whole>
    GPIPE_OUT_OF_LINE static void block(const convolution_plan::product& product, int columns,
                                        const convolution_plan::tap_list& taps, const T* a, const T* b,
                                        const number* row, result* c) {
      typename vector::type sum[std::size_t{Rows}][2] = {};
      if constexpr (Transposed) {
        GPIPE_UNROLL_ROWS
        for (int r = 0; r < Rows; ++r) {
          const number* start = c + std::ptrdiff_t{r} * product.c_stride;
          sum[r][0] = load<Whole>(start, columns);
          sum[r][1] = load<Whole>(start + vector::width, columns - vector::width);
        }
      }
      for (int tap = 0; tap < taps.count; ++tap) {
        const T* right = detail::moved(a, taps.a[tap]);
        const T* left_values = detail::moved(b, taps.b[tap]);
        for (int p = 0; p < product.k;
             ++p, right += product.a_stride, left_values += Transposed ? product.b_stride : 1) {
          const auto right0 = load<Whole>(right, columns),
                     right1 = load<Whole>(right + vector::width, columns - vector::width);
          GPIPE_UNROLL_ROWS
          for (int r = 0; r < Rows; ++r) {
            const auto left = vector::repeat(left_values[Transposed ? r : std::ptrdiff_t{r} * product.b_stride]);
            sum[r][0] = vector::multiply_add(left, right0, sum[r][0]);
            sum[r][1] = vector::multiply_add(left, right1, sum[r][1]);
          }
        }
      }
      if (row != nullptr) {
        const auto row0 = load<Whole>(row, columns), row1 = load<Whole>(row + vector::width, columns - vector::width);
        GPIPE_UNROLL_ROWS
        for (int r = 0; r < Rows; ++r) {
          sum[r][0] += row0;
          sum[r][1] += row1;
        }
      }
      GPIPE_UNROLL_ROWS
      for (int r = 0; r < Rows; ++r) {
        result* out = c + std::ptrdiff_t{r} * product.c_stride;
        store<Whole>(sum[r][0], out, columns);
        store<Whole>(sum[r][1], out + vector::width, columns - vector::width);
      }
    }

    template <bool Whole, class From>
    static typename vector::type load(const From* source, int columns) {
      if constexpr (Whole && std::is_same_v<From, number>) {
        return vector::load(source);
      } else {
        number some[vector::width] = {};
        for (int i = 0; i < vector::width; ++i)
          if (Whole || i < columns) some[i] = source[i];
        return vector::load(some);
      }
    }
    template <bool Whole>
    static void store(typename vector::type sum, result* target, int columns) {
      if constexpr (Whole && std::is_same_v<result, number>) {
        vector::store(sum, target);
      } else {
        number some[vector::width];
        vector::store(sum, some);
        for (int i = 0; i < vector::width; ++i)
          if (Whole || i < columns) target[i] = static_cast<result>(some[i]);
      }
    }

    convolution_plan plan_;
    int m_;
  };
};

}  // namespace gpipe::host

#undef GPIPE_UNROLL_ROWS
