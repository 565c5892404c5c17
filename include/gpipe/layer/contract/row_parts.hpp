#pragma once

namespace gpipe {

/// How many micro-batches one kernel takes together, at most.
inline constexpr int most_together = 8;

/// The rows of a matrix in at most as many places: `rows` in each but the last, which has what is left.
template <class T>
struct row_parts {
  const T* part[most_together];
  int rows;
};

}  // namespace gpipe
