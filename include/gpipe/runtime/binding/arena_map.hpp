#pragma once

#include <map>
#include <tuple>

#include <gpipe/core/config.hpp>
#include <gpipe/core/index.hpp>
#include <gpipe/plan/memory/memory_kind.hpp>

namespace gpipe::detail {

/// The slot of each micro-batch, [micro-batch]: `forward` in the forward pass, `backward` in recompute and backward.
/// Null: one slot for all.
struct slot_table {
  const int *forward = nullptr, *backward = nullptr;

  constexpr slot_table() = default;
  constexpr explicit slot_table(const int* both) : forward(both), backward(both) {}
  constexpr slot_table(const int* first, const int* later) : forward(first), backward(later) {}
};

/// The address of a buffer: one address, or one for each slot of its micro-batches. The values of a recomputed layer
/// have another buffer in backward.
struct block_address {
  std::byte* base = nullptr;
  std::size_t stride = 0;
  slot_table memory_slots{};
  std::byte* backward_base = nullptr;  ///< null: the same buffer
  std::size_t backward_stride = 0;

  std::byte* at(int m, bool backward) const {
    const bool separate = backward && backward_base != nullptr;
    const int* const slot_numbers = backward ? memory_slots.backward : memory_slots.forward;
    std::byte* const buffer = separate ? backward_base : base;
    return slot_numbers == nullptr ? buffer : buffer + (separate ? backward_stride : stride) * index(slot_numbers[m]);
  }
  /// The same with the address of another buffer in backward.
  block_address then(const block_address& later) const {
    block_address both = *this;
    both.memory_slots.backward = later.memory_slots.backward;
    both.backward_base = later.base;
    both.backward_stride = later.stride;
    return both;
  }
};

/// The blocks of one stage's arena, by their contents. It is used to bind stages, and not during steps.
class arena_map {
 public:
  explicit arena_map(std::byte* base) : base_(base) {}

  void add(const memory_block& b) { blocks_[{b.kind, b.layer_index, b.value, b.index}] = b; }

  bool has(memory_kind kind, int layer, int value, int index = 0) const {
    return blocks_.count({kind, layer, value, index}) > 0;
  }
  GPIPE_COLD block_address find(memory_kind kind, int layer, int value, slot_table memory_slots = {},
                                int index = 0) const {
    const memory_block& b = blocks_.at({kind, layer, value, index});
    return {base_ + b.offset, b.stride > 0 ? b.stride : b.bytes, b.copies > 1 ? memory_slots : slot_table{}};
  }

 private:
  std::byte* base_;
  std::map<std::tuple<memory_kind, int, int, int>, memory_block> blocks_;
};

}  // namespace gpipe::detail
