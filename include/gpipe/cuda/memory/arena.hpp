#pragma once

#include <cstddef>

#include <gpipe/cuda/stream/gpu.hpp>

namespace gpipe::cuda {

/// The only allocation of a stage on a GPU, filled with one byte.
class arena {
 public:
  GPIPE_COLD explicit arena(std::size_t bytes, std::byte fill = std::byte{0}, int gpu = 0) : gpu_(gpu), bytes_(bytes) {
    use(gpu);
    void* found = nullptr;
    check(cudaMalloc(&found, bytes + gpipe::detail::alignment), "cudaMalloc");
    data_ = static_cast<std::byte*>(found);
    cudaError_t filled = cudaMemset(data_, static_cast<int>(fill), bytes + gpipe::detail::alignment);
    if (filled == cudaSuccess) filled = cudaStreamSynchronize(nullptr);  // our streams do not wait for the default one
    if (filled != cudaSuccess) free();
    check(filled, "cudaMemset");
  }
  GPIPE_COLD ~arena() { free(); }
  arena(const arena&) = delete;
  arena& operator=(const arena&) = delete;

  std::byte* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return bytes_; }

 private:
  void free() noexcept {
    ignore(cudaSetDevice(gpu_));
    ignore(cudaFree(data_));
  }

  int gpu_;
  std::byte* data_ = nullptr;
  std::size_t bytes_;
};

}  // namespace gpipe::cuda
