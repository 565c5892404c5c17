#pragma once

#include <memory>
#include <utility>
#include <vector>

#include <gpipe/transport/nccl/communicator.hpp>
#include <gpipe/transport/peers.hpp>

namespace gpipe::nccl {

/// What both ends of a channel have: a communicator of two ranks, since NCCL tells messages apart by their order alone,
/// and a stream of its own, on which a message may wait for the other rank while the stage's stream goes on. Always as
/// many bytes as a full micro-batch has are sent.
class end {
 public:
  GPIPE_ONCE end(route along, std::unique_ptr<communicator> over, const cuda::stream& stage, int peer)
      : along_(std::move(along)), stage_(stage), lane_(stage.gpu()), over_(std::move(over)), peer_(peer) {
    int most = 0;
    for (const auto* list : {&along_.slot, &along_.place})
      for (const int at : *list) most = at > most ? at : most;
    moments_.resize(static_cast<std::size_t>(most) + 1);
  }

 protected:
  cuda::event& moment(int place) { return moments_[static_cast<std::size_t>(place)]; }
  int place(int micro_batch) const { return along_.place[static_cast<std::size_t>(micro_batch)]; }

  /// What is asked of the one stream from now on comes after what was asked of the other.
  void follow(const cuda::stream& after, const cuda::stream& before) {
    cuda::use(stage_.gpu());
    turn_.record(before);
    turn_.hold_back(after);
  }
  template <class Call>
  void each_value(int place, Call&& call) {
    over_->together([&] {
      for (const cargo& v : along_.values)
        call(v.base + static_cast<std::size_t>(place) * v.stride, v.row * static_cast<std::size_t>(along_.capacity));
    });
  }

  route along_;
  const cuda::stream& stage_;
  cuda::stream lane_;
  std::unique_ptr<communicator> over_;  // ends before the stream does
  int peer_;

 private:
  std::vector<cuda::event> moments_;  // [place], up to which it is in use
  cuda::event turn_;
};

/// Sends from the stage's arena. Nothing here waits on the host but for NCCL to take what it is asked.
class sender final : public far_sender, private end {
 public:
  using end::end;

  void acquire(int micro_batch, errand) override {
    cuda::use(stage_.gpu());
    moment(place(micro_batch)).hold_back(stage_);
  }
  void publish(int micro_batch, int) override {
    const int at = place(micro_batch);
    follow(lane_, stage_);
    each_value(at, [&](const std::byte* from, std::size_t bytes) { over_->send(from, bytes, peer_, lane_); });
    moment(at).record(lane_);
  }
};

/// Receives into the stage's arena.
class receiver final : public far_receiver, private end {
 public:
  using end::end;

  int consume(int micro_batch, errand) override {
    const int at = place(micro_batch);
    cuda::use(stage_.gpu());
    moment(at).hold_back(lane_);
    each_value(at, [&](std::byte* into, std::size_t bytes) { over_->receive(into, bytes, peer_, lane_); });
    follow(stage_, lane_);
    return along_.capacity;
  }
  void release(int micro_batch) override {
    cuda::use(stage_.gpu());
    moment(place(micro_batch)).record(stage_);
  }
};

}  // namespace gpipe::nccl
