#pragma once

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/device/contract/device_concept.hpp>
#include <gpipe/transport/contract/process_group.hpp>
#include <gpipe/transport/in_process/worker_signals.hpp>

namespace gpipe::detail {

// assumes: one kind of device
/// The channel between two workers of one process: both ends in one object. It moves no bytes: between `acquire` and
/// `publish` the sender writes directly into the receiver's memory, which the receiver owns from `consume` until
/// `release`.
///
/// `Marker` is for asynchronous devices, such as an event: one per slot, used only by the slot's owner. The sender
/// awaits it after `acquire` and marks it before `publish`; the receiver awaits it after `consume` and marks it before
/// `release`.
///
/// Using a slot out of turn is an error in the program, which is asserted.
template <class Marker = unmarked, class Threads = detail::thread_primitives>
class channel final : public sending_end, public receiving_end {
 public:
  /// Sender and receiver are workers of `wake_signals`; `memory_slots[m]` is the slot of micro-batch m.
  channel(basic_worker_signals<Threads>& wake_signals, int sender, int receiver, std::vector<int> memory_slots)
      : signals_(&wake_signals),
        sender_(sender),
        receiver_(receiver),
        slot_of_(std::move(memory_slots)),
        slots_(*std::max_element(slot_of_.begin(), slot_of_.end()) + 1),
        cells_(std::make_unique<cell[]>(static_cast<std::size_t>(slots_))) {
    assert(slots_ > 0 && sender != receiver);
    assert(sender >= 0 && sender < wake_signals.workers() && receiver >= 0 && receiver < wake_signals.workers());
  }

  int memory_slots() const noexcept { return slots_; }
  int sender() const noexcept { return sender_; }
  int receiver() const noexcept { return receiver_; }

  /// Sender: waits until the slot is free.
  void acquire(int micro_batch, wait_context context = {}) override {
    await(micro_batch, turn::free, sender_, context, receiver_, "to free")
        .state.store(turn::taken, std::memory_order_relaxed);
  }

  /// Sender: gives the slot to the receiver.
  void publish(int micro_batch, int samples) noexcept override {
    cell& c = at(micro_batch);
    c.samples = samples;
    hand_over(c, turn::taken, turn::full, sender_, receiver_);
  }

  /// Receiver: waits until the slot is published; returns its number of samples.
  int consume(int micro_batch, wait_context context = {}) override {
    cell& c = await(micro_batch, turn::full, receiver_, context, sender_, "to fill");
    c.state.store(turn::in_use, std::memory_order_relaxed);
    return c.samples;
  }
  bool arrived(int micro_batch) noexcept override {
    return at(micro_batch).state.load(std::memory_order_acquire) == turn::full;
  }

  /// Receiver: the slot's last use is over.
  void release(int micro_batch) noexcept override {
    hand_over(at(micro_batch), turn::in_use, turn::free, receiver_, sender_);
  }

  /// Frees every slot, while neither worker runs.
  void reset() noexcept {
    for (int k = 0; k < slots_; ++k)
      cells_[static_cast<std::size_t>(k)].state.store(turn::free, std::memory_order_release);
  }

  Marker& marker(int micro_batch) noexcept { return at(micro_batch).marker; }

 private:
  enum class turn : std::uint8_t { free, taken, full, in_use };

  struct alignas(alignment) cell {
    typename Threads::template atomic<turn> state{turn::free};
    int samples = 0;
    [[no_unique_address]] Marker marker{};
  };

  int slot(int micro_batch) const noexcept {
    assert(micro_batch >= 0 && micro_batch < static_cast<int>(slot_of_.size()));
    return slot_of_[static_cast<std::size_t>(micro_batch)];
  }
  cell& at(int micro_batch) const noexcept { return cells_[static_cast<std::size_t>(slot(micro_batch))]; }

  GPIPE_OUT_OF_LINE cell& await(int micro_batch, turn wanted, int waiter, wait_context context, int partner,
                                const char* action) {
    cell& c = at(micro_batch);
    assert(c.state.load(std::memory_order_relaxed) != (wanted == turn::free ? turn::taken : turn::in_use));
    const auto end =
        signals_->try_wait(waiter, [&c, wanted] { return c.state.load(std::memory_order_acquire) == wanted; });
    if (end != detail::wait_result::ready)
      signals_->fail(end, waiter, context,
                     detail::concat({"worker ", partner, " ", action, " slot ", slot(micro_batch)}));
    return c;
  }

  void hand_over(cell& c, [[maybe_unused]] turn before, turn after, int worker, int partner) noexcept {
    assert(c.state.load(std::memory_order_relaxed) == before);
    c.state.store(after, std::memory_order_release);
    signals_->progress(worker);
    signals_->wake(partner);
  }

  basic_worker_signals<Threads>* signals_;
  int sender_, receiver_;
  std::vector<int> slot_of_;  // [micro-batch]
  int slots_;
  std::unique_ptr<cell[]> cells_;
};

// change: link emulation
/// Makes the transfers of one direction of a link take time. It is called next to a channel and moves nothing:
///
///     sender     write ... depart(m, bytes)  publish(m)
///     receiver                                           consume(m)  arrive(m)  read ...
class link_delay {
 public:
  virtual ~link_delay() = default;
  /// Sender, before `publish`: these bytes leave.
  virtual void depart(int micro_batch, std::int64_t bytes) noexcept = 0;
  /// Receiver, after `consume`: waits until the micro-batch's bytes have arrived. The wait counts as progress, and a
  /// failure elsewhere ends it by throwing `detail::interrupted`.
  virtual void arrive(int micro_batch) = 0;
  /// Discards the transfers in flight. Called while neither worker runs.
  virtual void reset() noexcept = 0;
};

/// Makes the emulations of links. The options of a training refer only to this type.
struct link_emulation {
  std::unique_ptr<link_delay> (*make)(worker_signals& wake_signals, int receiver, int micro_batches,
                                      std::int64_t bytes_per_second);
};

}  // namespace gpipe::detail
