#pragma once

namespace gpipe {

/// The maximum number of micro-batches that one kernel call combines.
inline constexpr int max_gradient_group = 8;

/// The rows of a matrix in several parts in memory: `rows` in each part but the last, which has the remaining rows.
template <class T>
struct row_parts {
  const T* part[max_gradient_group];
  int rows;
};

}  // namespace gpipe
