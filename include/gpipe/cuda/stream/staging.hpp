#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>

#include <gpipe/cuda/stream/stream.hpp>

namespace gpipe::cuda {

/// Copies between the memory of the host and of a GPU, through pieces of memory on both sides that are allocated once
/// and used in turn. The host's pieces are pinned: the GPU reads them by itself, and no thread waits.
///
///     up     host -> piece of the host -> piece of the GPU -> target        at once; on a second stream; in order
///     down   source -> piece of the host -> host                            in order; at `drain`
///
/// The second step of an upload runs while the stream still computes earlier operations: data arrive early.
class staging {
 public:
  GPIPE_COLD explicit staging(const stream& queue) : stream_(queue), early_(queue.gpu()) {
    check(cudaHostAlloc(&hosts_, pieces * piece_bytes, cudaHostAllocPortable), "cudaHostAlloc");
    const cudaError_t given = cudaMalloc(&gpus_, pieces * piece_bytes);
    if (given != cudaSuccess) ignore(cudaFreeHost(hosts_));
    check(given, "cudaMalloc");
  }
  GPIPE_COLD ~staging() {
    ignore(cudaSetDevice(stream_.gpu()));
    ignore(cudaStreamSynchronize(early_.get()));
    ignore(cudaFree(gpus_));
    ignore(cudaFreeHost(hosts_));
  }
  staging(const staging&) = delete;
  staging& operator=(const staging&) = delete;

  /// The source has been read when this returns.
  void up(std::size_t bytes, const std::byte* source, std::byte* target) {
    for (std::size_t done = 0; done < bytes; done += piece_bytes) {
      const std::size_t n = (std::min)(piece_bytes, bytes - done);
      piece& p = take();
      std::memcpy(host(p), source + done, n);
      check(cudaMemcpyAsync(gpu(p), host(p), n, cudaMemcpyHostToDevice, early_.get()), "cudaMemcpyAsync");
      p.arrived.record(early_);
      p.arrived.make_wait(stream_);
      check(cudaMemcpyAsync(target + done, gpu(p), n, cudaMemcpyDeviceToDevice, stream_.get()), "cudaMemcpyAsync");
      p.over.record(stream_);
    }
  }

  /// The target is written by `drain`, or earlier.
  void down(std::size_t bytes, const std::byte* source, std::byte* target) { down(bytes, source, target, {bytes, 0}); }
  /// Rows that are adjacent in the source are written `stride` bytes apart.
  struct row_targets {
    std::size_t bytes = 0, stride = 0;
  };
  void down(std::size_t bytes, const std::byte* source, std::byte* target, const row_targets& rows) {
    for (std::size_t done = 0; done < bytes; done += piece_bytes) {
      const std::size_t n = (std::min)(piece_bytes, bytes - done);
      piece& p = take();
      check(cudaMemcpyAsync(host(p), source + done, n, cudaMemcpyDeviceToHost, stream_.get()), "cudaMemcpyAsync");
      p.over.record(stream_);
      p.target = target;
      p.first = done;
      p.bytes = n;
      p.rows = rows;
    }
  }

  /// Copies the pending downloads to their targets, once the stream is complete.
  void drain() noexcept {
    for (piece& p : pieces_) arrive(p);
  }
  /// Discards them instead: the stream has failed.
  void drop() noexcept {
    for (piece& p : pieces_) p.target = nullptr;
  }

 private:
  static constexpr std::size_t piece_bytes = std::size_t{1} << 20;
  static constexpr int pieces = 16;

  struct piece {
    event arrived, over;
    std::byte* target = nullptr;  // of the whole download; this piece has the bytes [first, first + bytes)
    std::size_t first = 0, bytes = 0;
    row_targets rows{};
  };

  std::size_t offset(const piece& p) const { return static_cast<std::size_t>(&p - pieces_) * piece_bytes; }
  std::byte* host(const piece& p) const { return static_cast<std::byte*>(hosts_) + offset(p); }
  std::byte* gpu(const piece& p) const { return static_cast<std::byte*>(gpus_) + offset(p); }

  // The least recently used piece, once it is free again.
  piece& take() {
    piece& p = pieces_[next_];
    next_ = (next_ + 1) % pieces;
    p.over.wait();
    arrive(p);
    return p;
  }
  void arrive(piece& p) noexcept {
    if (p.target == nullptr) return;
    for (std::size_t done = 0, n = 0; done < p.bytes; done += n) {
      const std::size_t row = (p.first + done) / p.rows.bytes, column = (p.first + done) % p.rows.bytes;
      n = (std::min)(p.rows.bytes - column, p.bytes - done);
      std::memcpy(p.target + row * p.rows.stride + column, host(p) + done, n);
    }
    p.target = nullptr;
  }

  const stream& stream_;
  stream early_;
  void *hosts_ = nullptr, *gpus_ = nullptr;
  piece pieces_[pieces];
  int next_ = 0;
};

}  // namespace gpipe::cuda
