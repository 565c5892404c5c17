#pragma once

#include <map>
#include <tuple>

#include <gpipe/plan/memory.hpp>

namespace gpipe::detail {

/// Where a buffer lies: one address, or one for each place that a micro-batch may have.
struct location {
  std::byte* base = nullptr;
  std::size_t stride = 0;
  const int* place = nullptr;  ///< [micro-batch]; null: one for all

  std::byte* at(int m) const { return place == nullptr ? base : base + stride * static_cast<std::size_t>(place[m]); }
};

/// The blocks of one stage's arena, found by what they hold. Used while stages are bound, never in a step.
class arena_map {
 public:
  explicit arena_map(std::byte* base) : base_(base) {}

  void add(const memory_block& b) { blocks_[{b.kind, b.slot, b.value, b.index}] = b; }

  bool has(memory_kind kind, int slot, int value, int index = 0) const {
    return blocks_.count({kind, slot, value, index}) > 0;
  }
  GPIPE_ONCE location find(memory_kind kind, int slot, int value, const int* place = nullptr, int index = 0) const {
    const memory_block& b = blocks_.at({kind, slot, value, index});
    return {base_ + b.offset, b.stride > 0 ? b.stride : b.bytes, b.copies > 1 ? place : nullptr};
  }

 private:
  std::byte* base_;
  std::map<std::tuple<memory_kind, int, int, int>, memory_block> blocks_;
};

}  // namespace gpipe::detail
