// optimize: kernels

#include <gpipe/device/host/gemm/product_block.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <vector>

#include <gpipe/core/numbers/multiply_add.hpp>

using gpipe::host::product_block;

namespace {

template <class T>
std::vector<T> numbers(int count, unsigned seed) {
  std::vector<T> made;
  for (int i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    made.push_back(static_cast<T>(seed >> 8) / T(1 << 23) - T(1));
  }
  return made;
}

/// The sums of two taps and a row, by the definition.
template <class T, bool Transposed>
void check(int rows, int columns, int k, bool add) {
  CAPTURE(rows);
  CAPTURE(columns);
  CAPTURE(k);
  CAPTURE(add);
  const int lda = (Transposed ? rows : k) + 3, ldb = columns + 1, ldc = columns + 2, second = 5;
  const auto a = numbers<T>(second + (Transposed ? k : rows) * lda, 1), b = numbers<T>(second + k * ldb, 2);
  const auto row = numbers<T>(columns, 3);
  auto c = numbers<T>(rows * ldc, 4), expected = c;
  for (int r = 0; r < rows; ++r)
    for (int j = 0; j < columns; ++j) {
      T sum = add ? c[static_cast<std::size_t>(r * ldc + j)] : T(0);
      for (const int first : {0, second})
        for (int p = 0; p < k; ++p)
          sum =
              gpipe::detail::multiply_add(a[static_cast<std::size_t>(first + (Transposed ? p * lda + r : r * lda + p))],
                                          b[static_cast<std::size_t>(first + p * ldb + j)], sum);
      expected[static_cast<std::size_t>(r * ldc + j)] = add ? sum : sum + row[static_cast<std::size_t>(j)];
    }
  constexpr unsigned long long offsets[] = {0, second * sizeof(T)};
  product_block::add_up<Transposed>({rows, columns, k, lda, ldc, add, Transposed, ldb}, a.data(), b.data(), c.data(),
                                    {offsets, offsets, 2}, add ? nullptr : row.data());
  CHECK(c == expected);
}

}  // namespace

TEST_CASE_TEMPLATE("blocks have the sums of the definition, and touch nothing else", T, float, double) {
  constexpr int width = gpipe::host::detail::vector<T>::width;
  for (int rows = 1; rows <= 30; ++rows)
    for (int columns = 1; columns <= 4 * width + 1; columns += 1 + columns / (width + 1)) {
      const int k = 1 + rows * columns % 7;
      const bool add = (rows + columns) % 2 == 0;
      check<T, false>(rows, columns, k, add);
      check<T, true>(rows, columns, k, add);
    }
}
