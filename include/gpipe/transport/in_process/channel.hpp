#pragma once

#include <gpipe/core/config.hpp>
#include <gpipe/device/contract/device_concept.hpp>
#include <gpipe/transport/contract/channel_ends.hpp>
#include <gpipe/transport/in_process/worker_signals.hpp>

#include <atomic>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace gpipe {

/// The channel between two workers of one process. It moves no bytes: between `acquire` and `publish` the sender
/// writes straight into the receiver's memory, which the receiver owns from `consume` until `release`.
///
/// `Marker` is what a device that works later needs besides, such as an event: one a slot, touched by the slot's owner
/// only. The sender awaits it after `acquire` and marks it before `publish`; the receiver likewise, after `consume` and
/// before `release`.
///
/// Sender and receiver are seats of the lifeline. A slot used out of turn is a fault of the program: asserted.
template <class Marker = unmarked>
class channel {
 public:
  channel(lifeline& line, int sender, int receiver, int slots)
      : line_(&line),
        sender_(sender),
        receiver_(receiver),
        slots_(slots),
        cells_(std::make_unique<cell[]>(static_cast<std::size_t>(slots))) {
    assert(slots > 0 && sender != receiver);
    assert(sender >= 0 && sender < line.workers() && receiver >= 0 && receiver < line.workers());
  }

  int slots() const noexcept { return slots_; }
  int sender() const noexcept { return sender_; }
  int receiver() const noexcept { return receiver_; }

  /// Sender: waits until the slot is free.
  void acquire(int slot, errand what = {}) {
    await(slot, turn::free, sender_, what, receiver_, "to free");
    at(slot).now.store(turn::taken, std::memory_order_relaxed);
  }

  /// Sender: what was written is the receiver's.
  void publish(int slot, int samples) noexcept {
    at(slot).samples = samples;
    hand_over(slot, turn::taken, turn::full, sender_, receiver_);
  }

  /// Receiver: waits until the slot is published; its number of samples.
  int consume(int slot, errand what = {}) {
    await(slot, turn::full, receiver_, what, sender_, "to fill");
    at(slot).now.store(turn::in_use, std::memory_order_relaxed);
    return at(slot).samples;
  }

  /// Receiver: the slot's last use is over.
  void release(int slot) noexcept { hand_over(slot, turn::in_use, turn::free, receiver_, sender_); }

  /// Frees every slot, while neither worker runs.
  void reset() noexcept {
    for (int k = 0; k < slots_; ++k) at(k).now.store(turn::free, std::memory_order_release);
  }

  Marker& marker(int slot) noexcept { return at(slot).marker; }

 private:
  enum class turn : std::uint8_t { free, taken, full, in_use };

  struct alignas(alignment) cell {
    std::atomic<turn> now{turn::free};
    int samples = 0;
    [[no_unique_address]] Marker marker{};
  };

  cell& at(int slot) const noexcept {
    assert(slot >= 0 && slot < slots_);
    return cells_[static_cast<std::size_t>(slot)];
  }

  GPIPE_OUT_OF_LINE void await(int slot, turn wanted, int waiter, errand what, int other, const char* deed) {
    cell& c = at(slot);
    assert(c.now.load(std::memory_order_relaxed) != (wanted == turn::free ? turn::taken : turn::in_use));
    const auto end = line_->outlast(waiter, [&c, wanted] { return c.now.load(std::memory_order_acquire) == wanted; });
    if (end != detail::outcome::ready)
      line_->fail(end, waiter, what, detail::phrase({"worker ", other, " ", deed, " slot ", slot}));
  }

  void hand_over(int slot, [[maybe_unused]] turn before, turn after, int from, int to) noexcept {
    cell& c = at(slot);
    assert(c.now.load(std::memory_order_relaxed) == before);
    c.now.store(after, std::memory_order_release);
    line_->progress(from);
    line_->wake(to);
  }

  lifeline* line_;
  int sender_, receiver_, slots_;
  std::unique_ptr<cell[]> cells_;
};

static_assert(sending_end<channel<>> && receiving_end<channel<>>);

}  // namespace gpipe
