#pragma once

#include <gpipe/core/zeroed_array.hpp>

namespace gpipe::detail {

/// The memory slots in which a plan stores what its links transfer. The caller owns the arrays.
struct link_slot_table {
  const int* stash = nullptr;     ///< [link][micro-batch]: of activations in the stage that receives them
  const int* returned = nullptr;  ///< [link][micro-batch]: of gradients in the stage that sent the activations
  const int* copies = nullptr;    ///< [link][stash, returned]: the slots that the stages' memory has
};

/// The state of every slot of every channel in a run of the programs, as the channels of the runtime have it:
///
///     sender     acquire(m) ... forward ... publish(m)
///     receiver                                          consume(m) ... release(m)
///     m's slot   free       taken           full        in use         free
///
/// Channel 2 l carries the activations of link l, channel 2 l + 1 its gradients.
class slot_channels {
 public:
  enum class result { done, waits, wrong };

  constexpr slot_channels(const link_slot_table& memory_slots, int link_count, int micro_batches)
      : slots_(memory_slots),
        micro_batches_(micro_batches),
        states_(memory_slots.stash ? 2 * link_count * micro_batches : 0) {}

  /// Whether the slot of a micro-batch lies in memory that the receiving stage has.
  constexpr bool exists(int channel, int m) const { return slot(channel, m) < slots_.copies[channel]; }
  constexpr result acquire(int channel, int m) { return turn(channel, m, free, taken); }
  constexpr result publish(int channel, int m) { return turn(channel, m, taken, full); }
  constexpr result consume(int channel, int m) { return turn(channel, m, full, in_use); }
  constexpr result release(int channel, int m) { return turn(channel, m, in_use, free); }
  /// Whether `acquire` would wait.
  constexpr bool is_busy(int channel, int m) const {
    const int slot_state = states_[channel * micro_batches_ + slot(channel, m)];
    return slot_state != free && slot_state / 4 != m;
  }

 private:
  enum state : int { free, taken, full, in_use };  // a slot that is not free adds 4 m

  constexpr int slot(int channel, int m) const {
    const int* const slot_numbers =
        channel % 2 == 0 ? slots_.stash : slots_.returned;  // g++ 12's sanitizer breaks (a ? b : c)[i]
    return slot_numbers[channel / 2 * micro_batches_ + m];
  }
  constexpr result turn(int channel, int m, state before, state after) {
    int& slot_state = states_[channel * micro_batches_ + slot(channel, m)];
    const int own_state = 4 * m;
    if (before == free && slot_state == own_state + taken)
      return result::done;  // acquired before another channel made it wait
    if (slot_state == (before == free ? 0 : own_state + before)) {
      slot_state = after == free ? 0 : own_state + after;
      return result::done;
    }
    if (before == free) return slot_state / 4 == m ? result::wrong : result::waits;
    return before == full && slot_state % 4 != full ? result::waits : result::wrong;
  }

  const link_slot_table slots_;
  const int micro_batches_;
  const zeroed_array<int> states_;  // [channel][slot]
};

}  // namespace gpipe::detail
