#pragma once

#include <algorithm>
#include <cstddef>

#include <gpipe/core/config.hpp>
#include <gpipe/core/numbers/multiply_add.hpp>

namespace gpipe::host::detail {

// change: the order of a sum; over rows
/// Adds the sums over rows of a matrix whose elements are f(row, column) to the target. A sum of many
/// rows in one number would lose as many units in the last place as it has rows at worst, so it is made of blocks: the
/// rows of a block are added up in T, in ascending order, the blocks in double, and the total is rounded once.
///
///     rows      0 ... 63 | 64 ... 127 | 128 ... 150          T          double      T
///     of column     s0   |     s1     |      s2              s0 s1 s2   total       target += total
///
/// A functor whose value is a product has a second form, f(row, column, sum), which adds it by `multiply_add`; else the
/// compiler may fuse the product with the sum, or not.
///
/// The operations of a column do not depend on the other columns, which are computed side by side: 64, 32, or all that
/// remain.
template <class F, class T>
struct column_sums {
  static constexpr std::ptrdiff_t block = 64;
  F f;
  std::ptrdiff_t rows;

  void add_to(std::ptrdiff_t n, T* target) const {
    std::ptrdiff_t first = 0;
    for (; first + 64 <= n; first += 64) strip<64>(first, 64, target);
    for (; first + 32 <= n; first += 32) strip<32>(first, 32, target);
    if (first < n) strip<0>(first, n - first, target);
  }

 private:
  // Width: the number of columns, or 0 for a `count` that is not a constant.
  template <std::ptrdiff_t Width>
  GPIPE_OUT_OF_LINE void strip(std::ptrdiff_t first, std::ptrdiff_t count, T* target) const {
    constexpr std::size_t room = Width > 0 ? Width : 32;
    T sums[room] = {};
    if (rows <= block) {
      add_rows<Width>(0, rows, first, count, sums);
    } else {
      double total[room] = {};
      std::ptrdiff_t begin = 0;
      if constexpr (Width > 0)
        for (; begin + block <= rows; begin += block) add_block<Width>(begin, first, total);
      for (; begin < rows; begin += block) {
        T part[room] = {};
        add_rows<Width>(begin, (std::min)(begin + block, rows), first, count, part);
        for (std::size_t j = 0; j < room; ++j) total[j] += static_cast<double>(part[j]);
      }
      for (std::size_t j = 0; j < room; ++j) sums[j] = static_cast<T>(total[j]);
    }
    add(count, sums, target + first);
  }

  template <std::ptrdiff_t Width>
  GPIPE_OUT_OF_LINE void add_block(std::ptrdiff_t begin, std::ptrdiff_t first, double* total) const {
    T part[std::size_t{Width}] = {};
    add_rows<Width>(begin, begin + block, first, Width, part);
    for (std::ptrdiff_t j = 0; j < Width; ++j) total[j] += static_cast<double>(part[j]);
  }

  template <std::ptrdiff_t Width>
  GPIPE_INLINED void add_rows(std::ptrdiff_t begin, std::ptrdiff_t end, std::ptrdiff_t first, std::ptrdiff_t count,
                              T* part) const {
    for (std::ptrdiff_t row = begin; row < end; ++row)
      for (std::ptrdiff_t j = 0; j < (Width > 0 ? Width : count); ++j) {
        if constexpr (requires { f(row, j, part[j]); }) part[j] = f(row, first + j, part[j]);
        else part[j] += f(row, first + j);
      }
  }

  // Out of line, so that the sums stay an array in vectors.
  GPIPE_OUT_OF_LINE static void add(std::ptrdiff_t count, const T* source, T* target) {
    for (std::ptrdiff_t j = 0; j < count; ++j) target[j] = target[j] + source[j];
  }
};

}  // namespace gpipe::host::detail
