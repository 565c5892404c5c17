#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <vector>

#include <gpipe/cuda/stream/stream.hpp>

namespace gpipe::cuda {

/// Operations of several contexts, captured once as a CUDA graph. The first context that begins it launches it; the
/// other contexts join by awaiting a mark of the first. A graph has pinned memory for its uploads and downloads.
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
  void refill(std::size_t upload, std::ptrdiff_t bytes, const std::byte* data) {
    std::memcpy(ups_.at(upload).memory.get(), data, static_cast<std::size_t>(bytes));
  }

  // Called by contexts.

  void begin(const stream& queue) {
    if (first_ != nullptr) return;
    check(cudaStreamBeginCapture(queue.get(), cudaStreamCaptureModeRelaxed), "cudaStreamBeginCapture");
    first_ = &queue;
  }
  void end(const stream& queue) {
    if (&queue != first_) return;
    first_ = nullptr;
    cudaGraph_t written = nullptr;
    check(cudaStreamEndCapture(queue.get(), &written), "cudaStreamEndCapture");
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
  void up(const stream& queue, std::size_t bytes, const std::byte* source, std::byte* target) {
    std::byte* const memory = add(ups_, bytes);
    std::memcpy(memory, source, bytes);
    check(cudaMemcpyAsync(target, memory, bytes, cudaMemcpyHostToDevice, queue.get()), "cudaMemcpyAsync");
  }
  void down(const stream& queue, std::size_t bytes, const std::byte* source, std::byte* target) {
    std::byte* const memory = add(downs_, bytes);
    downs_.back().target = target;
    check(cudaMemcpyAsync(memory, source, bytes, cudaMemcpyDeviceToHost, queue.get()), "cudaMemcpyAsync");
  }
  void launch(const stream& queue) { check(cudaGraphLaunch(launched_, queue.get()), "cudaGraphLaunch"); }
  /// Copies the downloads to their targets, once the stream is complete.
  void drain() noexcept {
    for (const piece& p : downs_) std::memcpy(p.target, p.memory.get(), p.bytes);
  }

 private:
  struct unpin {
    GPIPE_COLD void operator()(std::byte* memory) const { ignore(cudaFreeHost(memory)); }
  };
  struct piece {
    std::unique_ptr<std::byte, unpin> memory;
    std::size_t bytes;
    std::byte* target = nullptr;
  };
  GPIPE_COLD static std::byte* add(std::vector<piece>& pieces, std::size_t bytes) {
    void* memory = nullptr;
    check(cudaHostAlloc(&memory, bytes, cudaHostAllocPortable), "cudaHostAlloc");
    pieces.push_back({std::unique_ptr<std::byte, unpin>(static_cast<std::byte*>(memory)), bytes});
    return static_cast<std::byte*>(memory);
  }

  const stream* first_ = nullptr;  // during the capture
  cudaGraphExec_t launched_ = nullptr;
  std::vector<piece> ups_, downs_;
};

}  // namespace gpipe::cuda
