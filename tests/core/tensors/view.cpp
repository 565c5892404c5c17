#include <gpipe/core/tensors/view.hpp>

#include <doctest/doctest.h>

TEST_CASE("a view indexes samples, rows and columns") {
  int numbers[2 * 3 * 4];
  for (int i = 0; i < 24; ++i) numbers[i] = i;
  const gpipe::view<int, 3, 4> x{numbers};
  CHECK(x(0, 0, 0) == 0);
  CHECK(x(0, 2, 3) == 11);
  CHECK(x(1, 0, 1) == 13);
  x(1, 2, 3) = 7;
  CHECK(numbers[23] == 7);
}

TEST_CASE("a view without extents has one number per sample") {
  static constexpr int numbers[] = {5, 6};
  constexpr gpipe::view<const int> x{numbers};
  static_assert(x(1) == 6);
}
