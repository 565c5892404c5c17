#pragma once

#include <utility>

#include <gpipe/device/cuda/stream/gpu.hpp>

namespace gpipe::cuda {

/// A queue of work for one GPU, apart from the default stream and its waits.
class stream {
 public:
  GPIPE_ONCE explicit stream(int gpu) : gpu_(gpu) {
    use(gpu);
    check(cudaStreamCreateWithFlags(&handle_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  }
  GPIPE_ONCE ~stream() { static_cast<void>(cudaStreamDestroy(handle_)); }
  stream(const stream&) = delete;
  stream& operator=(const stream&) = delete;

  int gpu() const noexcept { return gpu_; }
  cudaStream_t get() const noexcept { return handle_; }

 private:
  int gpu_;
  cudaStream_t handle_ = nullptr;
};

/// A moment of a stream. It is made on the GPU where it is first recorded.
class event {
 public:
  /// `timed`: whether the time between two of them can be told.
  explicit event(bool timed = false) : flags_(timed ? cudaEventDefault : cudaEventDisableTiming) {}
  GPIPE_ONCE ~event() {
    if (handle_ != nullptr) static_cast<void>(cudaEventDestroy(handle_));
  }
  event(event&& other) noexcept : flags_(other.flags_), handle_(std::exchange(other.handle_, nullptr)) {}
  event& operator=(event&&) = delete;

  /// The GPU of the stream is in use.
  void record(const stream& on) {
    if (handle_ == nullptr) check(cudaEventCreateWithFlags(&handle_, flags_), "cudaEventCreateWithFlags");
    check(cudaEventRecord(handle_, on.get()), "cudaEventRecord");
  }
  /// What is asked of the stream from now on begins after the moment, if there was one.
  void hold_back(const stream& waiting) const {
    if (handle_ != nullptr) check(cudaStreamWaitEvent(waiting.get(), handle_, 0), "cudaStreamWaitEvent");
  }
  /// The calling thread waits for the moment, if there was one.
  void wait() const {
    if (handle_ != nullptr) check(cudaEventSynchronize(handle_), "cudaEventSynchronize");
  }
  /// Whether the moment is over, or there was none.
  bool over() const {
    const cudaError_t found = handle_ == nullptr ? cudaSuccess : cudaEventQuery(handle_);
    if (found != cudaErrorNotReady) check(found, "cudaEventQuery");
    return found == cudaSuccess;
  }
  /// Milliseconds from this moment to a later one; both are over, and timed.
  float until(const event& later) const {
    float ms = 0;
    check(cudaEventElapsedTime(&ms, handle_, later.handle_), "cudaEventElapsedTime");
    return ms;
  }

 private:
  unsigned flags_;
  cudaEvent_t handle_ = nullptr;
};

}  // namespace gpipe::cuda
