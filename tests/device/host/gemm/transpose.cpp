// optimize: kernels

#include <gpipe/device/host/gemm/transpose.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <vector>

#include <gpipe/core/tensors/dtype.hpp>

using namespace gpipe;

namespace {

template <class From, class T>
void transposes(int rows, int columns) {
  const std::ptrdiff_t stride = rows + 3, into_stride = columns + 5;
  std::vector<From> from(static_cast<std::size_t>(columns * stride));
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<From>(i);
  std::vector<T> into(static_cast<std::size_t>(rows * into_stride), T(-1.0F));
  host::transpose(rows, columns, from.data(), stride, into.data(), into_stride);
  bool same = true;
  for (int row = 0; row < rows; ++row)
    for (int column = 0; column < into_stride; ++column)
      same = same && into[static_cast<std::size_t>(row * into_stride + column)] ==
                         (column < columns ? T(from[static_cast<std::size_t>(column * stride + row)]) : T(-1.0F));
  CAPTURE(rows);
  CAPTURE(columns);
  CHECK(same);
}

}  // namespace

TEST_CASE_TEMPLATE("each element is written to its transposed position, and nothing else is written", T, float,
                   double) {
  for (int rows = 1; rows <= 33; ++rows)
    for (int columns = 1; columns <= 33; ++columns) transposes<T, T>(rows, columns);
}

TEST_CASE("conversion to bf16 rounds") { transposes<float, bf16>(17, 16); }
