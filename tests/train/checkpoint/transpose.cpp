// sanitizers: address

#include <gpipe/train/checkpoint/transpose.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <span>
#include <vector>

using namespace gpipe::detail;

namespace {

template <class T>
void transposes(std::size_t rows, std::size_t columns, std::size_t first, std::size_t count) {
  CAPTURE(rows);
  CAPTURE(columns);
  CAPTURE(sizeof(T));
  std::vector<T> from(rows * columns), to(count * rows);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<T>(i * 7 + 1);
  transpose_rows(std::as_bytes(std::span(from)).data(), rows, columns, sizeof(T), first, count,
                 std::as_writable_bytes(std::span(to)).data());
  bool same = true;
  for (std::size_t c = 0; c < count; ++c)
    for (std::size_t r = 0; r < rows; ++r) same = same && to[c * rows + r] == from[r * columns + first + c];
  CHECK(same);
}

}  // namespace

TEST_CASE("rows of a transpose are the columns of the matrix") {
  for (const std::size_t rows : {1u, 15u, 16u, 33u})
    for (const std::size_t columns : {1u, 16u, 17u, 40u})
      for (std::size_t first = 0; first < columns; first += 9) {
        const std::size_t count = (columns - first + 1) / 2;
        transposes<std::uint8_t>(rows, columns, first, count);
        transposes<std::uint16_t>(rows, columns, first, count);
        transposes<float>(rows, columns, first, count);
        transposes<double>(rows, columns, first, count);
      }
}

TEST_CASE("each of several matrices becomes its transpose") {
  std::vector<float> all(3 * 4 * 5);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<float>(i);
  const auto before = all;
  transpose_each(std::as_writable_bytes(std::span(all)).data(), 3, 4, 5, sizeof(float));
  for (std::size_t m = 0; m < 3; ++m)
    for (std::size_t r = 0; r < 4; ++r)
      for (std::size_t c = 0; c < 5; ++c) CHECK(all[(m * 5 + c) * 4 + r] == before[(m * 4 + r) * 5 + c]);
}
