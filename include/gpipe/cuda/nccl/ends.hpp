#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include <gpipe/cuda/nccl/communicator.hpp>
#include <gpipe/transport/contract/process_group.hpp>

namespace gpipe::nccl {

/// The common part of sender and receiver: a communicator of two ranks, since NCCL distinguishes messages only by their
/// order, and a separate stream, on which a message may wait for the other rank while the stage's stream continues.
/// Every message has the size of a full micro-batch. The receiver consumes micro-batches in the order in which they are
/// sent.
class end {
 public:
  end(const end&) = delete;
  end& operator=(const end&) = delete;

  /// Uses this communicator from now on; `remote_rank` is the other rank in it. No message may be in flight.
  GPIPE_COLD void connect(std::unique_ptr<communicator> link, int remote_rank) {
    link_ = std::move(link);
    remote_rank_ = remote_rank;
  }
  /// Ends all waits for the other rank.
  GPIPE_COLD void abort() noexcept {
    if (link_) link_->abort();
  }
  int gpu() const { return stage_.gpu(); }
  /// The rank of the other end in the job.
  int peer() const { return layout_.peer; }
  /// Throws if the communicator has failed.
  void check_error() const {
    if (link_) link_->check_error();
  }
  /// Whether all its messages are complete.
  bool idle() const {
    return std::all_of(in_use_.begin(), in_use_.end(), [](const cuda::event& slot) { return slot.over(); });
  }

 protected:
  /// `stage`: the stream that writes the sent values, or reads the received ones. `memory_slots`: this end's slot for
  /// each micro-batch.
  GPIPE_COLD end(channel_layout layout, const std::vector<int> channel_layout::*memory_slots, const cuda::stream& stage)
      : layout_(std::move(layout)), stage_(stage), transfers_(stage.gpu()), slots_(layout_.*memory_slots) {
    in_use_.resize(static_cast<std::size_t>(*std::max_element(slots_.begin(), slots_.end())) + 1);
  }
  ~end() = default;

  int slot(int micro_batch) const { return slots_[static_cast<std::size_t>(micro_batch)]; }
  /// The slot is in use until this event.
  cuda::event& in_use(int slot) { return in_use_[static_cast<std::size_t>(slot)]; }

  /// Work that is enqueued on `later` from now on waits for the work on `earlier`.
  void order(const cuda::stream& earlier, const cuda::stream& later) {
    cuda::use(stage_.gpu());
    turn_.record(earlier);
    turn_.make_wait(later);
  }
  template <class Call>
  void each_value(int slot, Call&& call) {
    link_->group([&] {
      for (const buffer_layout& v : layout_.values)
        call(v.base + static_cast<std::size_t>(slot) * v.stride, v.row * static_cast<std::size_t>(layout_.capacity));
    });
  }

  channel_layout layout_;
  const cuda::stream& stage_;
  cuda::stream transfers_;
  std::unique_ptr<communicator> link_;  // ends before the stream does
  int remote_rank_ = 0;

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
    const int index = slot(micro_batch);
    order(stage_, transfers_);
    each_value(index,
               [&](const std::byte* data, std::size_t bytes) { link_->send(data, bytes, remote_rank_, transfers_); });
    in_use(index).record(transfers_);
  }
};

/// Receives into the stage's arena.
class receiver : public receiving_end, public end {
 public:
  receiver(channel_layout layout, const cuda::stream& stage)
      : end(std::move(layout), &channel_layout::receiver_slot, stage) {}

  int consume(int micro_batch, wait_context) override {
    const int index = slot(micro_batch);
    cuda::use(stage_.gpu());
    in_use(index).make_wait(transfers_);
    each_value(index,
               [&](std::byte* data, std::size_t bytes) { link_->receive(data, bytes, remote_rank_, transfers_); });
    order(transfers_, stage_);
    in_use(index).record(transfers_);
    return layout_.capacity;
  }
  void release(int micro_batch) override {
    cuda::use(stage_.gpu());
    in_use(slot(micro_batch)).record(stage_);
  }
};

}  // namespace gpipe::nccl
