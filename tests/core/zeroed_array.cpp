#include <gpipe/core/zeroed_array.hpp>

#include <doctest/doctest.h>

constexpr int sum_of_squares(int count) {
  const gpipe::detail::zeroed_array<int> squares(count);
  for (int i = 0; i < count; ++i) squares[i] = i * i;
  int sum = 0;
  for (int i = 0; i < count; ++i) sum += squares.data()[i];
  return sum;
}
static_assert(sum_of_squares(5) == 30);
static_assert(sum_of_squares(0) == 0);

TEST_CASE("a zeroed array starts at zero") {
  const gpipe::detail::zeroed_array<long> zeros(100);
  for (int i = 0; i < 100; ++i) CHECK(zeros[i] == 0);
}
