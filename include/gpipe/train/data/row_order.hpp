#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include <gpipe/core/error.hpp>
#include <gpipe/core/index.hpp>
#include <gpipe/core/numbers/random.hpp>

namespace gpipe {

/// A shuffle that stays near in memory. Blocks of neighbouring rows are permuted; then the rows of every `mixed`
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

/// The order of rows in one epoch after the other. It holds the blocks of an epoch and the rows of a window.
class row_order {
 public:
  row_order(int samples, const block_shuffle& how);

  void begin(bool shuffled, std::uint64_t seed, std::uint64_t epoch);
  /// Writes which rows stand at positions `at`, `at` + 1, ... of the epoch. Returns whether a window was entered.
  bool rows(int at, std::span<int> into);

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

#if GPIPE_BODIES
GPIPE_COLD GPIPE_INLINE void shuffle_rows(std::vector<int>& rows, const random_key& key) {
  for (std::uint32_t i = static_cast<std::uint32_t>(rows.size()); i > 1; --i) {
    const auto words = draw(key, 0, i);
    const std::uint64_t word = std::uint64_t{words.word[0]} << 32 | words.word[1];
    std::swap(rows[i - 1], rows[word % i]);
  }
}

GPIPE_COLD GPIPE_INLINE row_order::row_order(int samples, const block_shuffle& how)
    : samples_(samples),
      block_(how.rows == 0 ? (std::max)(samples, 1) : (std::min)(how.rows, (std::max)(samples, 1))),
      mixed_(how.mixed) {
  if (how.rows < 0) throw_error({"the rows of a block are ", how.rows}, {"choose at least 1, or 0 for all"});
  if (how.mixed < 1) throw_error({"mixed is ", how.mixed}, {"choose at least 1 block"});
}

GPIPE_COLD GPIPE_INLINE void row_order::begin(bool shuffled, std::uint64_t seed, std::uint64_t epoch) {
  shuffled_ = shuffled;
  seed_ = seed;
  epoch_ = epoch;
  blocks_.resize(index(samples_ / block_ + (samples_ % block_ != 0)));
  std::iota(blocks_.begin(), blocks_.end(), 0);
  if (shuffled && blocks_.size() > index(mixed_)) shuffle_rows(blocks_, {seed, epoch, ~1U, 0});
  window_ = -1;
  first_ = 0;
  order_.clear();
}

GPIPE_COLD GPIPE_INLINE void row_order::enter(int window) {
  window_ = window;
  order_.clear();
  for (const int block : this->window())
    for (int i = 0; i < rows_in(block); ++i) order_.push_back(block * block_ + i);
  if (shuffled_) shuffle_rows(order_, {seed_, epoch_, ~0U, static_cast<std::uint32_t>(window)});
}

GPIPE_INLINE bool row_order::rows(int at, std::span<int> into) {
  bool entered = false;
  for (std::size_t i = 0; i < into.size(); ++i) {
    const int wanted = at + static_cast<int>(i);
    if (window_ >= 0 && wanted < first_) window_ = -1, first_ = 0, order_.clear();  // back to the begin
    while (window_ < 0 || wanted - first_ >= static_cast<int>(order_.size())) {
      const int next = window_ + 1;
      int size = 0;
      for (const int block : blocks_in(next)) size += rows_in(block);
      first_ += static_cast<int>(order_.size());
      // A window before the wanted row is passed without an order.
      if (wanted - first_ >= size) window_ = next, order_.assign(index(size), 0);
      else enter(next);
      entered = true;
    }
    into[i] = order_[index(wanted - first_)];
  }
  return entered;
}
#endif

}  // namespace detail

}  // namespace gpipe
