#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <type_traits>
#include <vector>

#include <gpipe/core/numbers/random.hpp>
#include <gpipe/device/host/context.hpp>

#include "support/larger_error.hpp"
#include "support/sanitized.hpp"

namespace products {

using namespace gpipe;
using namespace gpipe::detail;

/// Aligned memory with a guard behind it.
template <class T>
class matrix {
 public:
  explicit matrix(std::size_t size, std::uint32_t stream = 0)
      : size_(size), first_(static_cast<T*>(::operator new ((size + guard) * sizeof(T), std::align_val_t{alignment}))) {
    for (std::size_t i = 0; i < size + guard; ++i)
      first_[i] =
          static_cast<T>(uniform(draw({.layer_index = stream}, 0, static_cast<std::uint32_t>(i)).word[0]) - 0.5F);
    std::copy_n(first_ + size, guard, behind_);
  }
  ~matrix() { ::operator delete (first_, std::align_val_t{alignment}); }
  matrix(const matrix&) = delete;

  operator T*() { return first_; }
  T& operator[](std::size_t i) { return first_[i]; }
  std::size_t size() const { return size_; }
  bool intact() const { return std::equal(behind_, behind_ + guard, first_ + size_); }

 private:
  static constexpr std::size_t guard = 64;
  std::size_t size_;
  T* first_;
  T behind_[guard];
};

constexpr std::size_t cells(int rows, int columns) {
  return static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns);
}
constexpr std::size_t cell(int row, int column, int columns) {
  return cells(row, columns) + static_cast<std::size_t>(column);
}
template <class A, class B>
double product(A a, B b) {
  return static_cast<double>(a) * static_cast<double>(b);
}
/// The greatest difference between computed and expected values, beyond one rounding to bf16.
template <class T>
double worst(matrix<T>& got, const std::vector<double>& want) {
  constexpr double rounding = std::is_same_v<T, bf16> ? 0x1.01p-8 : 0;
  double largest = 0;
  for (std::size_t i = 0; i < want.size(); ++i)
    largest = larger_error(largest, std::fabs(static_cast<double>(got[i]) - want[i]) - rounding * std::fabs(want[i]));
  return largest;
}
template <class T>
double tolerance(int terms) {
  return (std::is_same_v<compute_type<T>, float> ? 1e-6 : 1e-14) * (8 + terms);
}

enum class start { zero, itself, row };

template <class Context, class T>
void check_product(int rows, int n, int k, start from) {
  CAPTURE(rows);
  CAPTURE(n);
  CAPTURE(k);
  const Context context;
  matrix<T> a(cells(rows, k), 1), c(cells(rows, n), 3), packed(packed_size(k, n));
  matrix<compute_type<T>> b(cells(k, n), 2), row(cells(1, n), 4);
  context.template pack<T>(k, n, b, n, false, packed);
  std::vector<double> want(cells(rows, n));
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < n; ++j) {
      double sum = from == start::row ? static_cast<double>(row[cell(0, j, n)]) : 0;
      if (from == start::itself) sum = static_cast<double>(c[cell(i, j, n)]);
      for (int p = 0; p < k; ++p) sum += product(a[cell(i, p, k)], T(b[cell(p, j, n)]));
      want[cell(i, j, n)] = sum;
    }
  if (from == start::row) context.template multiply_plus<T>(rows, n, k, a, packed, row, c);
  else context.template multiply<T>(rows, n, k, a, packed, c, from == start::itself);
  CHECK(worst(c, want) < tolerance<T>(k));
  CHECK(c.intact());
}

template <class Context, class T>
void check_transposed_product(int m, int n, int rows) {
  CAPTURE(m);
  CAPTURE(n);
  CAPTURE(rows);
  matrix<T> a(cells(rows, m), 1), b(cells(rows, n), 2);
  matrix<compute_type<T>> c(cells(m, n), 3);
  std::vector<double> want(cells(m, n));
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) {
      double sum = static_cast<double>(c[cell(i, j, n)]);
      for (int p = 0; p < rows; ++p) sum += product(a[cell(p, i, m)], b[cell(p, j, n)]);
      want[cell(i, j, n)] = sum;
    }
  Context{}.template multiply_transposed<T>(m, n, rows, a, b, c);
  CHECK(worst(c, want) < tolerance<T>(rows));
  CHECK(c.intact());
}

/// Every extent from 1 to 70 with some of the others, and inner extents of more than one block.
template <class Context, class T>
void agree_with_plain_loops() {
  for (const start from : {start::zero, start::itself, start::row}) {
    for (int size = 1; size <= 70; ++size) {
      check_product<Context, T>(size, 71 - size, 1 + size * 13 % 70, from);
      check_product<Context, T>(1 + size * 7 % 70, size, 17, from);
    }
    check_product<Context, T>(7, 40, 513, from);
    check_product<Context, T>(3, 33, 1030, from);
  }
  for (int size = 1; size <= 70; ++size) {
    check_transposed_product<Context, T>(size, 71 - size, 1 + size * 13 % 70);
    check_transposed_product<Context, T>(1 + size * 7 % 70, 33, size);
  }
  check_transposed_product<Context, T>(40, 300, 130);
  check_transposed_product<Context, T>(33, 70, 300);
  check_transposed_product<Context, T>(150, 170, 260);  // neither is packed completely
  check_transposed_product<Context, T>(170, 150, 260);
}

/// Rows in several parts and one product per part give the same bits. `rows` of each part but the last.
template <class Context, class T>
void parts_do_not_matter() {
  const Context context;
  int turn = 0;
  for (int m = 1; m <= 150; m += m < 34 ? 1 : m < 70 ? 9 : 40)  // 150: too large to be packed at once
    for (const int n : {1, 3, 8, 15, 16, 17, 24, 25, 31, 32, 33, 100, 300})
      for (const int rows : {1, 3, 4, 8, 32, 50}) {
        if (laws::left_out(m + n + turn++)) continue;
        const int parts = 1 + (m + n + rows) % max_gradient_group, last = 1 + (m + n) % rows,
                  all = rows * (parts - 1) + last;
        matrix<T> a(cells(all, m), 1), b(cells(all, n), 2);
        matrix<compute_type<T>> one(cells(m, n), 3), several(cells(m, n), 3);
        row_parts<T> from_a{{}, rows}, from_b{{}, rows};
        for (int i = 0; i < parts; ++i) {  // in descending order in memory
          const int first = i + 1 < parts ? all - rows * (i + 1) : 0, count = i + 1 < parts ? rows : last;
          from_a.part[i] = a + cells(first, m), from_b.part[i] = b + cells(first, n);
          context.template multiply_transposed<T>(m, n, count, from_a.part[i], from_b.part[i], one);
        }
        context.template multiply_transposed<T>(m, n, all, from_a, from_b, several);
        CAPTURE(m);
        CAPTURE(n);
        CAPTURE(rows);
        CAPTURE(parts);
        CHECK(std::memcmp(one, several, sizeof(compute_type<T>) * one.size()) == 0);
        CHECK(several.intact());
      }
}

/// The same with products that underflow, down to a zero's sign.
template <class Context, class T>
void tiny_parts_do_not_matter() {
  constexpr auto tiny = static_cast<compute_type<T>>(sizeof(T) == 8 ? 1e-200 : 1e-30);
  for (const int rows : {1, 2, 3, 4, 5, 8}) {
    matrix<T> a(cells(rows, 1)), b(cells(rows, 1));
    for (std::size_t i = 0; i < a.size(); ++i) a[i] = T(tiny), b[i] = T(-tiny);
    compute_type<T> one = 0, several = 0;
    row_parts<T> from_a{{}, rows}, from_b{{}, rows};
    for (int i = 0; i < 4; ++i) {
      from_a.part[i] = a, from_b.part[i] = b;
      Context{}.template multiply_transposed<T>(1, 1, rows, a, b, &one);
    }
    Context{}.template multiply_transposed<T>(1, 1, 4 * rows, from_a, from_b, &several);
    CAPTURE(rows);
    CHECK(std::memcmp(&one, &several, sizeof one) == 0);
  }
}

/// Runs the parts of a product one after the other, the last one first.
class divided final : public host::product_sharing {
 public:
  explicit divided(int threads) : threads_(threads) { host::sharing_of_thread = this; }
  ~divided() { host::sharing_of_thread = nullptr; }
  int threads() const override { return threads_; }
  void run(void (*part)(const void* of, int i), const void* of) override {
    ++products;
    for (int i = threads_; i-- > 0;) part(of, i);
  }
  int products = 0;

 private:
  int threads_;
};

/// Threads that share a product give the bits of one thread.
template <class Context, class T>
void threads_do_not_matter() {
  const Context context;
  for (const int n : {128, 200, 256, 300, 777})
    for (const int k : {256, 600})
      for (const int rows : {1, 3, 16}) {
        matrix<T> a(cells(rows, k), 1), packed(packed_size(k, n)), alone(cells(rows, n), 3);
        matrix<compute_type<T>> b(cells(k, n), 2), row(cells(1, n), 4);
        context.template pack<T>(k, n, b, n, false, packed);
        context.template multiply_plus<T>(rows, n, k, a, packed, row, alone);
        context.template multiply<T>(rows, n, k, a, packed, alone, true);
        for (const int threads : {1, 2, 3, 7, 40}) {
          matrix<T> shared(cells(rows, n), 3);
          divided by(threads);
          context.template multiply_plus<T>(rows, n, k, a, packed, row, shared);
          context.template multiply<T>(rows, n, k, a, packed, shared, true);
          CAPTURE(n);
          CAPTURE(threads);
          CHECK(by.products == 2);
          CHECK(std::memcmp(alone, shared, sizeof(T) * alone.size()) == 0);
          CHECK(shared.intact());
        }
      }
  divided by(2);
  check_product<Context, T>(5, 100, 300, start::row);
  CHECK(by.products == 0);  // too small
}

/// A row's bits do not depend on the content of the rows around it.
template <class Context, class T>
void neighbours_do_not_matter() {
  constexpr int n = 42, k = 600;
  const Context context;
  matrix<compute_type<T>> b(cells(k, n), 2);
  matrix<T> packed(packed_size(k, n));
  context.template pack<T>(k, n, b, n, false, packed);
  for (const int rows : {1, 5, 16, 31, 32, 70}) {
    matrix<T> a(cells(rows, k), 1), first(cells(rows, n)), second(cells(rows, n));
    context.template multiply<T>(rows, n, k, a, packed, first, false);
    for (int row = 0; row < rows; ++row) {
      matrix<T> mixed(cells(rows, k), 3);
      std::memcpy(mixed + cells(row, k), a + cells(row, k), sizeof(T) * k);
      context.template multiply<T>(rows, n, k, mixed, packed, second, false);
      CAPTURE(rows);
      CAPTURE(row);
      CHECK(std::memcmp(first + cells(row, n), second + cells(row, n), sizeof(T) * n) == 0);
    }
  }
}

/// A row's bits do not depend on the number of rows.
template <class Context, class T>
void rows_do_not_matter() {
  constexpr int rows = 70, n = 42, k = 600;
  const Context context;
  matrix<T> a(cells(rows, k), 1), together(cells(rows, n)), alone(cells(rows, n)), packed(packed_size(k, n));
  matrix<compute_type<T>> b(cells(k, n), 2);
  context.template pack<T>(k, n, b, n, false, packed);
  context.template multiply<T>(rows, n, k, a, packed, together, false);
  for (int height = 1; height < rows; ++height) {
    for (int row = 0; row < rows; row += height)
      context.template multiply<T>((std::min)(height, rows - row), n, k, a + cells(row, k), packed,
                                   alone + cells(row, n), false);
    CAPTURE(height);
    CHECK(std::memcmp(together, alone, sizeof(T) * together.size()) == 0);
  }
}

/// A number in [1, most], for the extent of a random product; half of them are below a fourth.
inline int random_extent(std::uint32_t& state, int most) {
  state = state * 1664525u + 1013904223u;
  const int limit = state >> 31 == 0 ? most : (most + 3) / 4;
  return 1 + static_cast<int>((state >> 8 & 0x7fffff) % static_cast<unsigned>(limit));
}

/// Numbers of which the products underflow in every eighth problem, to zeros of either sign.
template <class T>
void make_tiny(matrix<T>& numbers, int problem) {
  if (problem % 8 != 0) return;
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] *= sizeof(T) == 8 ? T(1e-170) : T(1e-24F);
}

/// Random products have the same bits in both contexts. A row alone has those that it has among others.
template <class Context, class Other, class T>
void contexts_do_not_matter(int problems) {
  const Context context;
  const Other other;
  const auto same = [](matrix<T>& x, matrix<T>& y) { return std::memcmp(x, y, sizeof(T) * x.size()) == 0; };
  std::uint32_t state = sizeof(T);
  for (int problem = 0; problem < problems; ++problem) {
    if (laws::left_out(problem)) continue;
    const int rows = random_extent(state, 70), n = random_extent(state, 100), k = random_extent(state, 600);
    CAPTURE(rows);
    CAPTURE(n);
    CAPTURE(k);
    matrix<T> a(cells(rows, k), 1), b(cells(k, n), 2), packed(packed_size(k, n)), row(cells(1, n), 4);
    make_tiny(a, problem), make_tiny(b, problem), make_tiny(row, problem);
    context.template pack<T>(k, n, b, n, false, packed);
    matrix<T> x(cells(rows, n)), y(cells(rows, n)), alone(cells(rows, n));
    context.template multiply<T>(rows, n, k, a, packed, x, false);
    other.template multiply<T>(rows, n, k, a, packed, y, false);
    CHECK(same(x, y));
    for (int i = 0; i < rows; ++i)
      context.template multiply<T>(1, n, k, a + cells(i, k), packed, alone + cells(i, n), false);
    CHECK(same(x, alone));
    context.template multiply<T>(rows, n, k, a, packed, x, true);
    other.template multiply<T>(rows, n, k, a, packed, y, true);
    CHECK(same(x, y));
    context.template multiply_plus<T>(rows, n, k, a, packed, row, x);
    other.template multiply_plus<T>(rows, n, k, a, packed, row, y);
    CHECK(same(x, y));

    matrix<T> left(cells(k, rows), 5), c(cells(rows, n), 6), d(cells(rows, n), 6);
    make_tiny(left, problem);
    if (problem % 8 == 0)
      for (std::size_t i = 0; i < c.size(); ++i) c[i] = d[i] = T(0);
    const int part = (k + 1) / 2;  // rows in two parts
    row_parts<T> from_left{{left, left + cells(part, rows)}, part}, from_b{{b, b + cells(part, n)}, part};
    context.template multiply_transposed<T>(rows, n, k, from_left, from_b, c);
    other.template multiply_transposed<T>(rows, n, k, from_left, from_b, d);
    CHECK(same(c, d));
  }
}

}  // namespace products
