#pragma once

#include <cstdint>

#include <gpipe/device/cuda/stream/stream.hpp>

namespace gpipe::cuda {

/// What goes with a channel's slot: the moment up to which one side has asked for its use of the slot, for the other
/// to wait for. An event belongs to a GPU, and the sides may be on two: one for each.
class marker {
 public:
  /// The GPU of the stream is in use.
  void record(const stream& on) {
    int side = gpu_[0] < 0 || gpu_[0] == on.gpu() ? 0 : 1;
    gpu_[side] = on.gpu();
    moments_[side].record(on);
    last_ = side;
  }
  void hold_back(const stream& waiting) const { moments_[last_].hold_back(waiting); }

 private:
  event moments_[2];
  int gpu_[2] = {-1, -1};
  int last_ = 0;
};

/// When a GPU came to where its context was asked to note it.
class moment {
 public:
  /// The GPU of the stream is in use.
  void record(const stream& on) { event_.record(on); }
  /// To half a microsecond. Of one GPU, and both are over.
  std::int64_t ns_until(const moment& later) const {
    return static_cast<std::int64_t>(1e6 * static_cast<double>(event_.until(later.event_)));
  }

 private:
  event event_{true};
};

}  // namespace gpipe::cuda
