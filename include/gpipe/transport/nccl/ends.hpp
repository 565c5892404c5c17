#pragma once

#include <memory>
#include <utility>
#include <vector>

#include <gpipe/transport/contract/process_group.hpp>
#include <gpipe/transport/nccl/communicator.hpp>

namespace gpipe::nccl {

/// What both ends of a channel have: a communicator of two ranks, since NCCL tells messages apart by their order alone,
/// and a stream of its own, on which a message may wait for the other rank while the stage's stream goes on. Always as
/// many bytes as a full micro-batch has are sent.
class end {
 public:
  /// `stage`: the stream of who writes what is sent, or reads what has come.
  GPIPE_COLD end(channel_layout along, const cuda::stream& stage)
      : along_(std::move(along)), stage_(stage), lane_(stage.gpu()) {
    int most = 0;
    for (const auto* list : {&along_.receiver_slot, &along_.sender_slot})
      for (const int at : *list) most = at > most ? at : most;
    moments_.resize(static_cast<std::size_t>(most) + 1);
  }
  end(const end&) = delete;
  end& operator=(const end&) = delete;

  /// Goes over this communicator from now on, where the other rank has the number `other`; nothing is under way.
  GPIPE_COLD void join(std::unique_ptr<communicator> over, int other) {
    over_ = std::move(over);
    other_ = other;
  }
  /// Nothing waits for the other rank any more.
  GPIPE_COLD void part() noexcept {
    if (over_) over_->abort();
  }
  int gpu() const { return stage_.gpu(); }
  /// The rank at the other end, in the job.
  int peer() const { return along_.peer; }
  /// Throws if the communicator has failed.
  void look() const {
    if (over_) over_->look();
  }
  /// Whether all that was asked of it is done.
  bool idle() const {
    for (const cuda::event& m : moments_)
      if (!m.over()) return false;
    return true;
  }

 protected:
  ~end() = default;
  cuda::event& moment(int place) { return moments_[static_cast<std::size_t>(place)]; }
  int place(int micro_batch) const { return along_.sender_slot[static_cast<std::size_t>(micro_batch)]; }

  /// What is asked of the one stream from now on comes after what was asked of the other.
  void follow(const cuda::stream& after, const cuda::stream& before) {
    cuda::use(stage_.gpu());
    turn_.record(before);
    turn_.hold_back(after);
  }
  template <class Call>
  void each_value(int place, Call&& call) {
    over_->together([&] {
      for (const buffer_layout& v : along_.values)
        call(v.base + static_cast<std::size_t>(place) * v.stride, v.row * static_cast<std::size_t>(along_.capacity));
    });
  }

  channel_layout along_;
  const cuda::stream& stage_;
  cuda::stream lane_;
  std::unique_ptr<communicator> over_;  // ends before the stream does
  int other_ = 0;

 private:
  std::vector<cuda::event> moments_;  // [place], up to which it is in use
  cuda::event turn_;
};

/// Sends from the stage's arena. Nothing here waits on the host but for NCCL to take what it is asked.
class sender : public sending_end, public end {
 public:
  using end::end;

  void acquire(int micro_batch, wait_context) override {
    cuda::use(stage_.gpu());
    moment(place(micro_batch)).hold_back(stage_);
  }
  void publish(int micro_batch, int) override {
    const int at = place(micro_batch);
    follow(lane_, stage_);
    each_value(at, [&](const std::byte* from, std::size_t bytes) { over_->send(from, bytes, other_, lane_); });
    moment(at).record(lane_);
  }
};

/// Receives into the stage's arena.
class receiver : public receiving_end, public end {
 public:
  using end::end;

  int consume(int micro_batch, wait_context) override {
    const int at = place(micro_batch);
    cuda::use(stage_.gpu());
    moment(at).hold_back(lane_);
    each_value(at, [&](std::byte* into, std::size_t bytes) { over_->receive(into, bytes, other_, lane_); });
    follow(stage_, lane_);
    moment(at).record(lane_);
    return along_.capacity;
  }
  void release(int micro_batch) override {
    cuda::use(stage_.gpu());
    moment(place(micro_batch)).record(stage_);
  }
};

}  // namespace gpipe::nccl
