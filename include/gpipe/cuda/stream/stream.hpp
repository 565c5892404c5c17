#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include <gpipe/cuda/stream/gpu.hpp>

namespace gpipe::cuda {

/// A queue of work for one GPU, independent of the default stream and its waits.
class stream {
 public:
  GPIPE_COLD explicit stream(int gpu) : gpu_(gpu) {
    use(gpu);
    check(cudaStreamCreateWithFlags(&handle_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  }
  GPIPE_COLD ~stream() { ignore(cudaStreamDestroy(handle_)); }
  stream(const stream&) = delete;
  stream& operator=(const stream&) = delete;

  int gpu() const noexcept { return gpu_; }
  cudaStream_t get() const noexcept { return handle_; }

 private:
  int gpu_;
  cudaStream_t handle_ = nullptr;
};

/// A CUDA event. It is created on the GPU on which it is first recorded.
class event {
 public:
  /// `timed`: the time between two of them can be measured.
  explicit event(bool timed = false) : flags_(timed ? cudaEventDefault : cudaEventDisableTiming) {}
  GPIPE_COLD ~event() {
    if (handle_ != nullptr) ignore(cudaEventDestroy(handle_));
  }
  event(event&& other) noexcept : flags_(other.flags_), handle_(std::exchange(other.handle_, nullptr)) {}
  event& operator=(event&&) = delete;

  /// The GPU of the stream is the current one.
  void record(const stream& queue) {
    if (handle_ == nullptr) check(cudaEventCreateWithFlags(&handle_, flags_), "cudaEventCreateWithFlags");
    check(cudaEventRecord(handle_, queue.get()), "cudaEventRecord");
  }
  /// Work enqueued on `waiting` from now on begins after the event, if it was recorded.
  void make_wait(const stream& waiting) const {
    if (handle_ != nullptr) check(cudaStreamWaitEvent(waiting.get(), handle_, 0), "cudaStreamWaitEvent");
  }
  /// The calling thread waits for the event, if it was recorded.
  void wait() const {
    if (handle_ != nullptr) check(cudaEventSynchronize(handle_), "cudaEventSynchronize");
  }
  /// Returns true if the event is complete or was never recorded.
  bool over() const {
    const cudaError_t found = handle_ == nullptr ? cudaSuccess : cudaEventQuery(handle_);
    if (found != cudaErrorNotReady) check(found, "cudaEventQuery");  // CUDA keeps no code of NotReady
    return found == cudaSuccess;
  }
  /// Milliseconds from this event to a later one; both are complete and timed.
  float until(const event& later) const {
    float ms = 0;
    check(cudaEventElapsedTime(&ms, handle_, later.handle_), "cudaEventElapsedTime");
    return ms;
  }

 private:
  unsigned flags_;
  cudaEvent_t handle_ = nullptr;
};

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
