#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/core/error.hpp>
#include <gpipe/core/numbers/random.hpp>
#include <gpipe/train/data/row_order.hpp>

namespace gpipe {

namespace detail {

GPIPE_COLD GPIPE_INLINE void shuffle_rows(std::vector<int>& rows, const random_key& key) {
  for (std::uint32_t i = static_cast<std::uint32_t>(rows.size()); i > 1; --i) {
    const auto words = draw(key, 0, i);
    const std::uint64_t word = std::uint64_t{words.word[0]} << 32 | words.word[1];
    std::swap(rows[i - 1], rows[word % i]);
  }
}

GPIPE_COLD GPIPE_INLINE row_order::row_order(int samples, const block_shuffle& shuffle)
    : samples_(samples),
      block_(shuffle.rows == 0 ? (std::max)(samples, 1) : (std::min)(shuffle.rows, (std::max)(samples, 1))),
      mixed_(shuffle.mixed) {
  if (shuffle.rows < 0) throw_error({"the rows of a block are ", shuffle.rows}, {"choose at least 1, or 0 for all"});
  if (shuffle.mixed < 1) throw_error({"mixed is ", shuffle.mixed}, {"choose at least 1 block"});
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

GPIPE_INLINE bool row_order::rows(int position, std::span<int> result) {
  bool entered = false;
  for (std::size_t i = 0; i < result.size(); ++i) {
    const int wanted = position + static_cast<int>(i);
    if (window_ >= 0 && wanted < first_) window_ = -1, first_ = 0, order_.clear();  // back to the beginning
    while (window_ < 0 || wanted - first_ >= static_cast<int>(order_.size())) {
      const int next = window_ + 1;
      int size = 0;
      for (const int block : blocks_in(next)) size += rows_in(block);
      first_ += static_cast<int>(order_.size());
      // Windows before the wanted row are skipped without an order.
      if (wanted - first_ >= size) window_ = next, order_.assign(index(size), 0);
      else enter(next);
      entered = true;
    }
    result[i] = order_[index(wanted - first_)];
  }
  return entered;
}

}  // namespace detail

}  // namespace gpipe
