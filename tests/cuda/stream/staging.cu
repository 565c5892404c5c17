#include <gpipe/cuda/stream/staging.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include <gpipe/cuda/cuda.hpp>

#include "support/on_gpu.hpp"

// Bytes and rows that go through the pieces of pinned memory, of which there are 16 of 1 MiB.

using namespace gpipe;

namespace {

std::vector<std::uint32_t> counted_up(std::size_t size) {
  std::vector<std::uint32_t> found(size);
  for (std::size_t i = 0; i < size; ++i) found[i] = static_cast<std::uint32_t>(i * 2654435761u);
  return found;
}

}  // namespace

TEST_CASE("more bytes than all staging pieces are uploaded and downloaded") {
  const gpipe::cuda::context there;
  const auto values = counted_up(std::size_t{10} << 20);  // 40 MiB
  const on_gpu<std::uint32_t> v(there, values);
  CHECK(v.back() == values);
}

TEST_CASE("rows are downloaded to columns of wider rows, whose other columns stay") {
  const gpipe::cuda::context there;
  struct extents {
    std::size_t rows, columns, before, all;
  };
  // One number, a row, rows that end within a piece, rows of more than a piece, more rows than all pieces hold.
  for (const auto& [rows, columns, before, all] : {extents{1, 1, 0, 1},
                                                   {1, 100, 3, 107},
                                                   {5, 7, 2, 9},
                                                   {1000, 777, 1, 800},
                                                   {3, 700'001, 5, 700'007},
                                                   {6000, 1001, 999, 2000}}) {
    CAPTURE(rows);
    CAPTURE(columns);
    const auto values = counted_up(rows * columns);
    const on_gpu<std::uint32_t> v(there, values);
    std::vector<std::uint32_t> into(rows * all, 5), expected = into;
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t c = 0; c < columns; ++c) expected[r * all + before + c] = values[r * columns + c];
    there.download_rows(static_cast<int>(rows), static_cast<std::ptrdiff_t>(columns * sizeof(std::uint32_t)),
                        reinterpret_cast<const std::byte*>(v.data()),
                        reinterpret_cast<std::byte*>(into.data() + before),
                        static_cast<std::ptrdiff_t>(all * sizeof(std::uint32_t)));
    there.finish();
    CHECK(into == expected);
  }
}
