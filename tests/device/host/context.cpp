// optimize: kernels

#include <gpipe/device/host/context.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <thread>
#include <type_traits>
#include <vector>

#include "support/products.hpp"

using namespace gpipe;
using products::cell;
using products::cells;
using products::matrix;

static_assert(std::is_trivially_copyable_v<host::context> && std::is_empty_v<host::context>);

namespace {

const host::context context;

struct count {
  int* visits;
  void operator()(std::ptrdiff_t i) const { ++visits[i]; }
};
struct row_sum {
  const float* values;
  std::ptrdiff_t width;
  float* into;
  template <class Team>
  void operator()(std::ptrdiff_t row, const Team& team) const {
    const float* from = values + row * width;
    into[row] = team.sum(width, [from](std::ptrdiff_t i) { return from[i]; });
  }
};
struct entry {
  const float* values;
  std::ptrdiff_t width;
  float operator()(std::ptrdiff_t row, std::ptrdiff_t column) const { return values[row * width + column]; }
};
struct number {
  const float* values;
  float operator()(std::ptrdiff_t i) const { return values[i]; }
};

}  // namespace

TEST_CASE("sum_rows adds in ascending order, and zeros change nothing") {
  for (const std::ptrdiff_t n : {0, 1, 63, 64, 65, 200}) {
    CAPTURE(n);
    std::vector<double> values(2 * static_cast<std::size_t>(n)), spread(values.size());
    double ascending = 0;
    for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
      values[i] = (i % 3 == 0 ? -1.0 : 1.0) / static_cast<double>(i * i + 3);
      spread[i + i / 2] = values[i];
      ascending += values[i];
    }
    const auto reader = [](const std::vector<double>& list) {
      return [&list](std::ptrdiff_t i) { return list[static_cast<std::size_t>(i)]; };
    };
    double sum = -1, sum_of_spread = -1;
    context.sum_rows(n, reader(values), &sum);
    context.sum_rows(2 * n, reader(spread), &sum_of_spread);
    CHECK(sum == ascending);
    CHECK(sum_of_spread == ascending);
  }
}

TEST_CASE("each visits every index once") {
  for (const int n : {0, 1, 7, 64, 1000}) {
    std::vector<int> visits(static_cast<std::size_t>(n) + 1);
    context.each(n, count{visits.data()});
    for (int i = 0; i < n; ++i) CHECK(visits[static_cast<std::size_t>(i)] == 1);
    CHECK(visits.back() == 0);
  }
}

TEST_CASE("rows gives each row a team") {
  matrix<float> values(cells(5, 33)), sums(5);
  context.rows(5, row_sum{values, 33, sums});
  for (int row = 0; row < 5; ++row) {
    double want = 0;
    for (int i = 0; i < 33; ++i) want += double{values[cell(row, i, 33)]};
    CHECK(std::fabs(double{sums[static_cast<std::size_t>(row)]} - want) < 1e-5);
  }
  CHECK(sums.intact());
}

TEST_CASE("columns adds up blocks of 64 rows in ascending order, the blocks in double, onto the previous content") {
  for (const int rows : {0, 1, 9, 63, 64, 65, 128, 200, 1000})
    for (const int n : {1, 10, 31, 32, 33, 64, 100, 160}) {
      CAPTURE(rows);
      CAPTURE(n);
      matrix<float> values(cells(rows + 1, n)), into(cells(1, n), 1), want(cells(1, n), 1);
      context.columns(rows, n, entry{values, n}, static_cast<float*>(into));
      int wrong = 0;
      for (int j = 0; j < n; ++j) {
        double total = 0;
        for (int begin = 0; begin < rows; begin += 64) {
          float sum = 0;
          for (int row = begin; row < rows && row < begin + 64; ++row) sum += values[cell(row, j, n)];
          total += double{sum};
        }
        wrong += into[cell(0, j, n)] != want[cell(0, j, n)] + static_cast<float>(total);
      }
      CHECK(wrong == 0);
      CHECK(into.intact());
    }
}

TEST_CASE("the sum of a column of many rows is as exact as that of a few") {
  constexpr int rows = 100'000;
  const std::vector<float> values(rows, 0.1F);
  float sum = 0, in_order = 0;
  context.columns(rows, 1, entry{values.data(), 1}, &sum);
  for (const float x : values) in_order += x;
  CHECK(std::fabs(double{sum} / (rows * double{0.1F}) - 1) < 1e-6);
  CHECK(std::fabs(double{in_order} / (rows * double{0.1F}) - 1) > 1e-5);
}

TEST_CASE("add_rows adds rows to others, one after the other") {
  constexpr int n = 33;
  const std::vector<std::int32_t> to{3, 1, 3, 0, 3};
  matrix<float> from(cells(5, n)), into(cells(5, n), 1), want(cells(5, n), 1);
  context.add_rows<float>(5, n, to.data(), from, 2.0F, into);
  for (int row = 0; row < 5; ++row)
    for (int j = 0; j < n; ++j)
      want[cell(to[static_cast<std::size_t>(row)], j, n)] += 2.0F * from[cell(row, j, n)];  // a product that is exact
  int wrong = 0;
  for (int i = 0; i < 5 * n; ++i) wrong += into[cell(0, i, n)] != want[cell(0, i, n)];
  CHECK(wrong == 0);
  CHECK(into.intact());
}

TEST_CASE("sum is in double") {
  std::vector<float> values(1 << 16, 0.1F);
  double total = -1;
  context.sum(1 << 16, number{values.data()}, &total);
  CHECK(std::fabs(total - 65536 * double{0.1F}) < 1e-9);
  context.sum(0, number{nullptr}, &total);
  CHECK(total == 0);
}

TEST_CASE("copy, fill and add") {
  std::vector<double> a{1, 2, 3}, b(4, -1.0);
  context.copy(3, a.data(), b.data());
  CHECK(b == std::vector<double>{1, 2, 3, -1});
  context.add(3, a.data(), b.data());
  CHECK(b == std::vector<double>{2, 4, 6, -1});
  context.fill(3, 7.0, b.data());
  CHECK(b == std::vector<double>{7, 7, 7, -1});
}

TEST_CASE_TEMPLATE("pack stores panels one after the other and pads the last with zeros", T, float, double) {
  for (const bool transposed : {false, true})
    for (const int k : {1, 31, 33, 64})
      for (const int n : {1, 31, 32, 33, 70}) {
        CAPTURE(k);
        CAPTURE(n);
        const int stride = (transposed ? k : n) + 3;
        matrix<T> source(cells(transposed ? n : k, stride)), packed(packed_size(k, n), 1);
        context.pack(k, n, static_cast<const T*>(source), stride, transposed, static_cast<T*>(packed));
        int wrong = 0;
        for (int column = 0; column < (n + panel_width - 1) / panel_width * panel_width; ++column)
          for (int row = 0; row < k; ++row) {
            const T got =
                packed[cells(column / panel_width, k * panel_width) + cell(row, column % panel_width, panel_width)];
            const std::size_t from = transposed ? cell(column, row, stride) : cell(row, column, stride);
            const T want = column >= n ? T(0) : source[from];
            wrong += got == want ? 0 : 1;
          }
        CHECK(wrong == 0);
        CHECK(packed.intact());
      }
}

TEST_CASE("bits depend neither on the thread nor on the caller") {
  constexpr int rows = 19, n = 45, k = 77;
  matrix<float> a(cells(rows, k), 1), b(cells(k, n), 2), packed(packed_size(k, n));
  matrix<float> here(cells(rows, n)), there(cells(rows, n));
  context.pack(k, n, static_cast<const float*>(b), n, false, static_cast<float*>(packed));
  context.multiply<float>(rows, n, k, a, packed, here, false);
  volatile int hidden = rows;  // hides the numbers from the compiler
  std::thread([&] { context.multiply<float>(hidden, n, k, a, packed, there, false); }).join();
  CHECK(std::memcmp(here, there, sizeof(float) * here.size()) == 0);

  matrix<float> sums_here(rows), sums_there(rows);
  context.rows(rows, row_sum{a, k, sums_here});
  std::thread([&] { context.rows(hidden, row_sum{a, k, sums_there}); }).join();
  CHECK(std::memcmp(sums_here, sums_there, sizeof(float) * rows) == 0);
}
