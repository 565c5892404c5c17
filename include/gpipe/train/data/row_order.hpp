#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/core/numbers/random.hpp>

namespace gpipe {

/// A shuffle with local reads. Blocks of neighbouring rows are permuted; then the rows of every `mixed`
/// blocks, which make a window, are permuted among themselves:
///
///     rows     0 1 2 | 3 4 5 | 6 7 8 | 9 10 11      blocks of 3 rows
///     blocks   6 7 8   0 1 2 | 9 10 11   3 4 5      windows of 2 blocks
///     order    1 8 6   2 7 0 | 4 11 9   10 5 3
///
/// The order is a function of seed, epoch, the number of rows, and these two numbers. A set that has one window only is
/// shuffled as a whole.
struct block_shuffle {
  int rows = 0;    ///< of a block; 0: all rows, which is the order of `dataset::shuffled`
  int mixed = 16;  ///< blocks of a window
};

namespace detail {

/// The order of rows in consecutive epochs. It holds the blocks of an epoch and the rows of a window.
class row_order {
 public:
  row_order(int samples, const block_shuffle& shuffle);

  void begin(bool shuffled, std::uint64_t seed, std::uint64_t epoch);
  /// Writes the rows at `position`, `position` + 1, ... of the epoch. Returns whether a window was entered.
  bool rows(int position, std::span<int> result);

  /// The blocks of the window that was entered last, and of the one after it.
  std::span<const int> window() const { return blocks_in(window_); }
  std::span<const int> next_window() const { return blocks_in(window_ + 1); }
  int block_rows() const { return block_; }

 private:
  std::span<const int> blocks_in(int window) const {
    const std::size_t begin = (std::min)(index(window) * index(mixed_), blocks_.size());
    return std::span(blocks_).subspan(begin, (std::min)(index(mixed_), blocks_.size() - begin));
  }
  int rows_in(int block) const { return (std::min)(block_, samples_ - block * block_); }
  void enter(int window);

  int samples_, block_, mixed_;
  bool shuffled_ = false;
  std::uint64_t seed_ = 0, epoch_ = 0;
  std::vector<int> blocks_, order_;  // the blocks of the epoch; the rows of the window
  int window_ = -1, first_ = 0;      // the position of the window's first row
};

/// Fisher and Yates, by counter-based words: shuffles of standard libraries differ.
void shuffle_rows(std::vector<int>& rows, const random_key& key);

}  // namespace detail

}  // namespace gpipe

#if !GPIPE_COMPILED
#include <gpipe/train/data/row_order-inl.hpp>
#endif
