#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include <gpipe/cuda/nccl/communicator.hpp>
#include <gpipe/transport/contract/channel_ends.hpp>

namespace gpipe::nccl {

/// What sender and receiver have in common: a communicator of two ranks, since NCCL distinguishes messages by their
/// order alone, and a stream of its own, on which a message may wait for the other rank while the stage's stream goes
/// on. Every message has the size of a full micro-batch. The receiver consumes micro-batches in the order in which they
/// are sent.
class end {
 public:
  end(const end&) = delete;
  end& operator=(const end&) = delete;

  /// Uses this communicator from now on, in which the other rank is `other`; no message is under way.
  GPIPE_COLD void connect(std::unique_ptr<communicator> over, int other) {
    over_ = std::move(over);
    other_ = other;
  }
  /// Nothing waits for the other rank any more.
  GPIPE_COLD void abort() noexcept {
    if (over_) over_->abort();
  }
  int gpu() const { return stage_.gpu(); }
  /// The rank at the other end, in the job.
  int peer() const { return layout_.peer; }
  /// Throws if the communicator has failed.
  void check_error() const {
    if (over_) over_->check_error();
  }
  /// Whether all its messages are complete.
  bool idle() const {
    return std::all_of(in_use_.begin(), in_use_.end(), [](const cuda::event& slot) { return slot.over(); });
  }

 protected:
  /// `stage`: the stream that writes what is sent, or reads what is received. `slots`: this end's, of each micro-batch.
  GPIPE_COLD end(channel_layout layout, const std::vector<int> channel_layout::*memory_slots, const cuda::stream& stage)
      : layout_(std::move(layout)), stage_(stage), transfers_(stage.gpu()), slots_(layout_.*memory_slots) {
    in_use_.resize(static_cast<std::size_t>(*std::max_element(slots_.begin(), slots_.end())) + 1);
  }
  ~end() = default;

  int slot(int micro_batch) const { return slots_[static_cast<std::size_t>(micro_batch)]; }
  /// Up to this event the slot is in use.
  cuda::event& in_use(int slot) { return in_use_[static_cast<std::size_t>(slot)]; }

  /// Work that is enqueued on `later` from now on waits for the work on `earlier`.
  void order(const cuda::stream& earlier, const cuda::stream& later) {
    cuda::use(stage_.gpu());
    turn_.record(earlier);
    turn_.make_wait(later);
  }
  template <class Call>
  void each_value(int slot, Call&& call) {
    over_->group([&] {
      for (const buffer_layout& v : layout_.values)
        call(v.base + static_cast<std::size_t>(slot) * v.stride, v.row * static_cast<std::size_t>(layout_.capacity));
    });
  }

  channel_layout layout_;
  const cuda::stream& stage_;
  cuda::stream transfers_;
  std::unique_ptr<communicator> over_;  // ends before the stream does
  int other_ = 0;

 private:
  std::vector<int> slots_;           // [micro-batch]
  std::vector<cuda::event> in_use_;  // [slot]
  cuda::event turn_;
};

/// Sends from the stage's arena. The host waits only until NCCL has enqueued a message.
class sender : public sending_end, public end {
 public:
  sender(channel_layout layout, const cuda::stream& stage)
      : end(std::move(layout), &channel_layout::sender_slot, stage) {}

  void acquire(int micro_batch, wait_context) override {
    cuda::use(stage_.gpu());
    in_use(slot(micro_batch)).make_wait(stage_);
  }
  void publish(int micro_batch, int) override {
    const int at = slot(micro_batch);
    order(stage_, transfers_);
    each_value(at, [&](const std::byte* from, std::size_t bytes) { over_->send(from, bytes, other_, transfers_); });
    in_use(at).record(transfers_);
  }
};

/// Receives into the stage's arena.
class receiver : public receiving_end, public end {
 public:
  receiver(channel_layout layout, const cuda::stream& stage)
      : end(std::move(layout), &channel_layout::receiver_slot, stage) {}

  int consume(int micro_batch, wait_context) override {
    const int at = slot(micro_batch);
    cuda::use(stage_.gpu());
    in_use(at).make_wait(transfers_);
    each_value(at, [&](std::byte* into, std::size_t bytes) { over_->receive(into, bytes, other_, transfers_); });
    order(transfers_, stage_);
    in_use(at).record(transfers_);
    return layout_.capacity;
  }
  void release(int micro_batch) override {
    cuda::use(stage_.gpu());
    in_use(slot(micro_batch)).record(stage_);
  }
};

}  // namespace gpipe::nccl
