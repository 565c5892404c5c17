#pragma once

#include <map>
#include <tuple>

#include <gpipe/plan/memory/layout.hpp>

namespace gpipe::detail {

/// Which place each micro-batch has, [micro-batch], when it runs forward, and when it runs again: recompute and
/// backward. Null: there is one place for all.
struct place_table {
  const int *forward = nullptr, *again = nullptr;

  constexpr place_table() = default;
  constexpr explicit place_table(const int* both) : forward(both), again(both) {}
  constexpr place_table(const int* first, const int* later) : forward(first), again(later) {}
};

/// Where a buffer lies: one address, or one for each place that a micro-batch may have.
struct location {
  std::byte* base = nullptr;
  std::size_t stride = 0;
  place_table place{};

  std::byte* at(int m, bool again) const {
    if (place.forward == nullptr) return base;
    return base + stride * static_cast<std::size_t>((again ? place.again : place.forward)[m]);
  }
};

/// The blocks of one stage's arena, found by what they hold. Used while stages are bound, never in a step.
class arena_map {
 public:
  explicit arena_map(std::byte* base) : base_(base) {}

  void add(const memory_block& b) { blocks_[{b.kind, b.slot, b.value, b.index}] = b; }

  bool has(memory_kind kind, int slot, int value, int index = 0) const {
    return blocks_.count({kind, slot, value, index}) > 0;
  }
  GPIPE_ONCE location find(memory_kind kind, int slot, int value, place_table place = {}, int index = 0) const {
    const memory_block& b = blocks_.at({kind, slot, value, index});
    return {base_ + b.offset, b.stride > 0 ? b.stride : b.bytes, b.copies > 1 ? place : place_table{}};
  }

 private:
  std::byte* base_;
  std::map<std::tuple<memory_kind, int, int, int>, memory_block> blocks_;
};

}  // namespace gpipe::detail
