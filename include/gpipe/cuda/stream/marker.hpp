#pragma once

#include <cstdint>
#include <optional>

#include <gpipe/cuda/stream/stream.hpp>

namespace gpipe::cuda {

/// Belongs to a channel's slot: one side records it after enqueuing its use of the slot, and the other waits for it. An
/// event belongs to a GPU, and the sides may be on two GPUs, so there is one event per side.
class marker {
 public:
  /// The GPU of the stream is the current one.
  void record(const stream& queue) {
    int side = gpu_[0] < 0 || gpu_[0] == queue.gpu() ? 0 : 1;
    gpu_[side] = queue.gpu();
    moments_[side].record(queue);
    last_ = side;
  }
  void make_wait(const stream& waiting) const { moments_[last_].make_wait(waiting); }

 private:
  event moments_[2];
  int gpu_[2] = {-1, -1};
  int last_ = 0;
};

/// The time at which a GPU has done all that its context enqueued before. An event belongs to a GPU: a moment that is
/// recorded on another GPU, as the next pass of a worker with stages on several GPUs may do, creates a new event.
class moment {
 public:
  /// The GPU of the stream is the current one.
  void record(const stream& queue) {
    if (!event_ || gpu_ != queue.gpu()) event_.emplace(true), gpu_ = queue.gpu();
    event_->record(queue);
  }
  /// Precise to half a microsecond. Both moments are of one GPU and complete.
  std::int64_t ns_until(const moment& later) const {
    return static_cast<std::int64_t>(1e6 * static_cast<double>(event_->until(*later.event_)));
  }

 private:
  std::optional<event> event_;
  int gpu_ = -1;
};

}  // namespace gpipe::cuda
