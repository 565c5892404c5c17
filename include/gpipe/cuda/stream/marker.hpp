#pragma once

#include <cstdint>
#include <optional>

#include <gpipe/cuda/stream/stream.hpp>

namespace gpipe::cuda {

/// Belongs to a channel's slot: one side records it after enqueuing its use of the slot, and the other waits for it. An
/// event belongs to a GPU, and the sides may be on two GPUs: one event for each.
class marker {
 public:
  /// The GPU of the stream is the current one.
  void record(const stream& on) {
    int side = gpu_[0] < 0 || gpu_[0] == on.gpu() ? 0 : 1;
    gpu_[side] = on.gpu();
    moments_[side].record(on);
    last_ = side;
  }
  void make_wait(const stream& waiting) const { moments_[last_].make_wait(waiting); }

 private:
  event moments_[2];
  int gpu_[2] = {-1, -1};
  int last_ = 0;
};

/// The time at which a GPU has done all that its context enqueued before. An event belongs to a GPU: recorded on
/// another one than before, which the next pass of a worker with stages on several may do, a moment creates a new
/// event.
class moment {
 public:
  /// The GPU of the stream is the current one.
  void record(const stream& on) {
    if (!event_ || gpu_ != on.gpu()) event_.emplace(true), gpu_ = on.gpu();
    event_->record(on);
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
