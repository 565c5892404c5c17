#pragma once

#include <algorithm>
#include <cstddef>
#include <initializer_list>

#include <gpipe/core/build_mode.hpp>
#include <gpipe/core/config.hpp>

namespace gpipe::detail {

/// The order of an array's axes in memory and in a file. A weight of a convolution, and a weight of a linear layer that
/// reads a flattened feature map, whose columns are pixels and channels:
///
///     in memory   [height x width][inputs][outputs]       [outputs][pixels][channels]
///     in PyTorch  [outputs][inputs][height x width]       [outputs][channels][pixels]
class axis_order {
 public:
  static constexpr int max_axes = 4;

  /// The same order in both.
  axis_order() = default;
  /// The extents of the axes in memory, and the numbers of these axes in the order of the file.
  axis_order(std::initializer_list<std::size_t> extents, std::initializer_list<int> in_file);

  std::size_t extent(int axis) const { return extents_[axis]; }
  std::size_t size() const { return extents_[0] * extents_[1] * extents_[2] * extents_[3]; }
  bool same() const { return axes_ <= 1; }
  /// The order with memory and file exchanged.
  axis_order inverse() const;
  bool operator==(const axis_order&) const = default;

  /// Copies elements from the file's order to memory's, `element` bytes each: 1, 2, 4 or 8. `source` is the whole
  /// array; `target` gets the indices `first` to `first + count` (excluded) of the first axis in memory.
  void take(const std::byte* source, std::size_t element, std::size_t first, std::size_t count,
            std::byte* target) const;

 private:
  int axes_ = 0;                               // without axes of one element
  std::size_t extents_[max_axes]{1, 1, 1, 1};  // in memory
  int in_file_[max_axes]{0, 1, 2, 3};          // the k-th axis in the file is this axis in memory
};

}  // namespace gpipe::detail

#if !GPIPE_COMPILED
#include <gpipe/train/checkpoint/names/transpose-inl.hpp>
#endif
