#pragma once

#include <cstddef>
#include <cstdint>

#include <gpipe/core/build_mode.hpp>
#include <gpipe/core/config.hpp>

namespace gpipe::detail {

/// Rows `first` to `first + count` of the transpose of a matrix, whose elements have `element` bytes: 1, 2, 4 or 8.
///
///     from:  rows x columns        to[c - first][r] = from[r][c],  first <= c < first + count
void transpose_rows(const std::byte* from, std::size_t rows, std::size_t columns, std::size_t element,
                    std::size_t first, std::size_t count, std::byte* to);

/// Each of `count` rows is a matrix of rows x columns, and becomes its transpose. A weight of a convolution needs both:
///
///     in a file      [outputs][inputs][height x width]
///     rows turned    [outputs][height x width][inputs]
///     transposed     [height x width][inputs][outputs]
void transpose_each(std::byte* matrices, std::size_t count, std::size_t rows, std::size_t columns, std::size_t element);

}  // namespace gpipe::detail

#if !GPIPE_COMPILED
#include <gpipe/train/checkpoint/transpose-inl.hpp>
#endif
