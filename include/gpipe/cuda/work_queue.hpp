#pragma once

#include <cstddef>
#include <exception>
#include <optional>
#include <string>
#include <utility>

#include <gpipe/cuda/kernels/gemm.hpp>
#include <gpipe/cuda/stream/graph.hpp>
#include <gpipe/cuda/stream/staging.hpp>
#include <gpipe/cuda/stream/stream.hpp>
#include <gpipe/device/contract/device_concept.hpp>

#ifndef GPIPE_NVTX
#define GPIPE_NVTX 0
#endif

#if GPIPE_NVTX
#include <cstdio>

#include <nvtx3/nvToolsExt.h>
#endif

namespace gpipe::cuda {

/// With -D GPIPE_NVTX=1 a profiler, such as Nsight Systems, shows the layer and micro-batch of the operations that a
/// context enqueues: a range from one `operation_tag` to the next, in the host's time. The profiler also shows the
/// GPU's times. Does nothing by default.
class nvtx_range {
 public:
#if GPIPE_NVTX
  ~nvtx_range() { end(); }
  void begin(const operation_tag& operation) {
    end();
    char name[160];
    std::snprintf(name, sizeof name, "stage %d micro-batch %d layer %d %.*s", operation.stage, operation.micro_batch,
                  operation.layer_index, static_cast<int>(operation.layer.size()), operation.layer.data());
    id_ = nvtxRangeStartA(name);
    open_ = true;
  }
  void end() {
    if (open_) nvtxRangeEnd(id_);
    open_ = false;
  }

 private:
  nvtxRangeId_t id_ = 0;
  bool open_ = false;
#else
  void begin(const operation_tag&) {}
  void end() {}
#endif
};

/// The stream of a context and the runtime's operations on it: transfers, marks, graphs, and the end of all work. It
/// keeps the first failure, after which nothing more is enqueued, until `finish` throws it.
class work_queue {
 public:
  GPIPE_COLD explicit work_queue(int gpu) : stream_(gpu), gemm_(stream_), staging_(stream_) {}

  int gpu() const { return stream_.gpu(); }
  /// The stream on which operations are enqueued.
  const cuda::stream& queue() const { return stream_; }

  /// Lets products of floats round their factors to TF32 (plan_options::tf32). Call before the first is prepared.
  void allow_tf32() { gemm_.allow_tf32(); }

  void upload(std::ptrdiff_t bytes, const std::byte* source, std::byte* target) const {
    const auto size = static_cast<std::size_t>(bytes);
    enqueue([&] { capture_ ? capture_->up(stream_, size, source, target) : staging_.up(size, source, target); });
  }
  void download(std::ptrdiff_t bytes, const std::byte* source, std::byte* target) const {
    const auto size = static_cast<std::size_t>(bytes);
    enqueue([&] { capture_ ? capture_->down(stream_, size, source, target) : staging_.down(size, source, target); });
  }
  /// The rows, adjacent in the source, are written `stride` bytes apart. Not for a capture.
  void download_rows(int rows, std::ptrdiff_t bytes, const std::byte* source, std::byte* target,
                     std::ptrdiff_t stride) const {
    const auto size = static_cast<std::size_t>(bytes);
    enqueue([&] {
      staging_.down(size * static_cast<std::size_t>(rows), source, target, {size, static_cast<std::size_t>(stride)});
    });
  }
  void mark(marker& point) const {
    enqueue([&] { point.record(stream_); });
  }
  void await(const marker& point) const {
    enqueue([&] { point.make_wait(stream_); });
  }
  void note(moment& time) const {
    enqueue([&] { time.record(stream_); });
  }
  void set_operation(const operation_tag& operation) const {
    operation_ = operation;
    nvtx_range_.begin(operation);
  }

  /// Between `begin` and `end` operations are captured and not executed.
  void begin(graph& captured) const {
    enqueue([&] { captured.begin(stream_); });
    if (!failure_) capture_ = &captured;  // otherwise `finish` drops the failed graph
  }
  void end(graph& captured) const {
    if (failure_) return;  // `finish` drops the graph
    capture_ = nullptr;
    enqueue([&] { captured.end(stream_); });
  }
  void launch(graph& captured) const {
    enqueue([&] { captured.launch(stream_); });
    launched_ = &captured;
  }

  /// Waits until all enqueued work is done. Throws `error` for the first failure, with the operation that was set last
  /// before it was reported.
  GPIPE_COLD void finish() const {
    if (capture_ != nullptr) std::exchange(capture_, nullptr)->drop();
    graph* const launched = std::exchange(launched_, nullptr);
    nvtx_range_.end();
    enqueue([&] { check(cudaStreamSynchronize(stream_.get()), "cudaStreamSynchronize"); });
    if (!failure_) {
      staging_.drain();
      if (launched != nullptr) launched->drain();
      return;
    }
    ignore(cudaStreamSynchronize(stream_.get()));  // nothing is in flight when another context uses the memory
    staging_.drop();
    const error first = *std::exchange(failure_, std::nullopt);
    throw first;
  }

 protected:
  // Enqueues work on the GPU, unless it has failed.
  template <class Call>
  void enqueue(Call&& call) const {
    if (failure_) return;
    try {
      use(gpu());
      call();
    } catch (const error& cause) {
      fail(cause.wrong(), cause.remedy());
    } catch (const std::exception& cause) {  // of Thrust
      forget_failure();
      fail(cause.what(), "");
    }
  }

  // `mutable`: layers enqueue through a const context.
  cuda::stream stream_;
  mutable gemm gemm_;

 private:
  GPIPE_COLD void fail(std::string wrong, std::string remedy) const {
    failure_.emplace(std::move(wrong), std::move(remedy),
                     gpipe::detail::location{.layer = std::string(operation_.layer),
                                             .layer_index = operation_.layer_index,
                                             .stage = operation_.stage,
                                             .micro_batch = operation_.micro_batch});
  }

  mutable staging staging_;
  mutable graph *capture_ = nullptr, *launched_ = nullptr;
  mutable operation_tag operation_{};
  [[no_unique_address]] mutable nvtx_range nvtx_range_;
  mutable std::optional<error> failure_;
};

}  // namespace gpipe::cuda
