#include <gpipe/core/tensors/number_rows.hpp>

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <span>
#include <vector>

using namespace gpipe;
using detail::number_rows_of;

TEST_CASE("every contiguous array of numbers has its address, its size and its type") {
  const std::vector<float> vector(3);
  const std::array<std::int32_t, 4> array{};
  double plain[5]{};
  const std::span<const bf16> span;
  CHECK(number_rows_of(vector).data == vector.data());
  CHECK(number_rows_of(vector).elements == 3);
  CHECK(number_rows_of(vector).type == dtype::float32);
  CHECK(number_rows_of(array).elements == 4);
  CHECK(number_rows_of(array).type == dtype::int32);
  CHECK(number_rows_of(plain).data == plain);
  CHECK(number_rows_of(plain).type == dtype::float64);
  CHECK(number_rows_of(span).elements == 0);
  CHECK(number_rows_of(span).type == dtype::bf16);
}
