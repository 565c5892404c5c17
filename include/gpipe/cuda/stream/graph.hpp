#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <vector>

#include <gpipe/cuda/stream/stream.hpp>

namespace gpipe::cuda {

/// Operations of several contexts, captured once as a CUDA graph. The first context that begins it launches it; the
/// others join by awaiting a mark of the first. Uploads and downloads have their own pinned memory here.
class graph {
 public:
  graph() = default;
  GPIPE_COLD ~graph() {
    drop();
    if (launched_ != nullptr) ignore(cudaGraphExecDestroy(launched_));
  }
  graph(const graph&) = delete;
  graph& operator=(const graph&) = delete;

  /// Replaces the data of an upload from the next launch on; uploads are numbered in order. Nothing is in flight.
  void refill(std::size_t upload, std::ptrdiff_t bytes, const std::byte* from) {
    std::memcpy(ups_.at(upload).memory.get(), from, static_cast<std::size_t>(bytes));
  }

  // Called by contexts.

  void begin(const stream& on) {
    if (first_ != nullptr) return;
    check(cudaStreamBeginCapture(on.get(), cudaStreamCaptureModeRelaxed), "cudaStreamBeginCapture");
    first_ = &on;
  }
  void end(const stream& on) {
    if (&on != first_) return;
    first_ = nullptr;
    cudaGraph_t written = nullptr;
    check(cudaStreamEndCapture(on.get(), &written), "cudaStreamEndCapture");
    const cudaError_t made = cudaGraphInstantiate(&launched_, written, 0);
    ignore(cudaGraphDestroy(written));
    check(made, "cudaGraphInstantiate");
  }
  /// Ends the capture without a graph.
  GPIPE_COLD void drop() noexcept {
    if (first_ == nullptr) return;
    cudaGraph_t written = nullptr;
    ignore(cudaStreamEndCapture(first_->get(), &written));  // fails if another stream was not joined
    if (written != nullptr) ignore(cudaGraphDestroy(written));
    first_ = nullptr;
  }
  void up(const stream& on, std::size_t bytes, const std::byte* from, std::byte* into) {
    std::byte* const memory = add(ups_, bytes);
    std::memcpy(memory, from, bytes);
    check(cudaMemcpyAsync(into, memory, bytes, cudaMemcpyHostToDevice, on.get()), "cudaMemcpyAsync");
  }
  void down(const stream& on, std::size_t bytes, const std::byte* from, std::byte* into) {
    std::byte* const memory = add(downs_, bytes);
    downs_.back().into = into;
    check(cudaMemcpyAsync(memory, from, bytes, cudaMemcpyDeviceToHost, on.get()), "cudaMemcpyAsync");
  }
  void launch(const stream& on) { check(cudaGraphLaunch(launched_, on.get()), "cudaGraphLaunch"); }
  /// Copies what was downloaded to its targets, once the stream is complete.
  void drain() noexcept {
    for (const piece& p : downs_) std::memcpy(p.into, p.memory.get(), p.bytes);
  }

 private:
  struct unpin {
    GPIPE_COLD void operator()(std::byte* memory) const { ignore(cudaFreeHost(memory)); }
  };
  struct piece {
    std::unique_ptr<std::byte, unpin> memory;
    std::size_t bytes;
    std::byte* into = nullptr;
  };
  GPIPE_COLD static std::byte* add(std::vector<piece>& to, std::size_t bytes) {
    void* memory = nullptr;
    check(cudaHostAlloc(&memory, bytes, cudaHostAllocPortable), "cudaHostAlloc");
    to.push_back({std::unique_ptr<std::byte, unpin>(static_cast<std::byte*>(memory)), bytes});
    return static_cast<std::byte*>(memory);
  }

  const stream* first_ = nullptr;  // during the capture
  cudaGraphExec_t launched_ = nullptr;
  std::vector<piece> ups_, downs_;
};

}  // namespace gpipe::cuda
