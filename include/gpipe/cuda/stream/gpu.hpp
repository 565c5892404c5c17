#pragma once

#include <cstddef>
#include <cstdint>
#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <gpipe/core/error.hpp>

namespace gpipe::cuda {

/// Resets CUDA's failure code after a failure was thrown or ignored. CUDA keeps the code until it is read, and Thrust
/// would report it at its next call, which is not the call that failed.
inline void forget_failure() noexcept { static_cast<void>(cudaGetLastError()); }

/// For calls that may fail, as in a destructor.
inline void ignore(cudaError_t found) noexcept {
  if (found != cudaSuccess) forget_failure();
}

namespace detail {

using gpipe::detail::throw_error;

[[noreturn]] GPIPE_COLD inline void throw_call_error(cudaError_t found, const char* call) {
  forget_failure();
  const bool full = found == cudaErrorMemoryAllocation;
  const bool absent = found == cudaErrorNoDevice || found == cudaErrorInsufficientDriver;
  throw_error(
      {call, ": ", cudaGetErrorName(found), ", ", cudaGetErrorString(found)},
      {full     ? "use more stages or GPUs, smaller micro-batches or recompute"
       : absent ? "check that `nvidia-smi` lists a GPU and a driver that is new enough for this build's CUDA"
                : "run compute-sanitizer to find the kernel; after most such errors a process cannot use the GPU "
                  "any more"});
}
[[noreturn]] GPIPE_COLD inline void throw_call_error(cublasStatus_t found, const char* call) {
  forget_failure();
  throw_error({call, ": ", cublasLtGetStatusName(found), ", ", cublasLtGetStatusString(found)},
              {"set CUBLASLT_LOG_LEVEL=1 to see the reason"});
}

}  // namespace detail

/// Throws `error` with the call's name and CUDA's message, unless the call succeeded. Errors of kernels are reported by
/// a later call: then the error names that call. The caller adds layer and stage.
inline void check(cudaError_t found, const char* call) {
  if (found != cudaSuccess) detail::throw_call_error(found, call);
}
inline void check(cublasStatus_t found, const char* call) {
  if (found != CUBLAS_STATUS_SUCCESS) detail::throw_call_error(found, call);
}

/// The number of GPUs that CUDA_VISIBLE_DEVICES allows this process to use; 0 without a driver.
GPIPE_COLD inline int gpus() {
  int count = 0;
  const cudaError_t found = cudaGetDeviceCount(&count);
  ignore(found);
  return found == cudaSuccess ? count : 0;
}

/// Throws CUDA's error on a machine without a GPU.
GPIPE_COLD inline void require_gpu() {
  int count = 0;
  check(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  check(count > 0 ? cudaSuccess : cudaErrorNoDevice, "cudaGetDeviceCount");
}

/// The calling thread's CUDA calls go to this GPU from now on.
inline void use(int gpu) { check(cudaSetDevice(gpu), "cudaSetDevice"); }

/// Available bytes of a GPU.
GPIPE_COLD inline std::int64_t memory_left(int gpu) {
  use(gpu);
  std::size_t left = 0, total = 0;
  check(cudaMemGetInfo(&left, &total), "cudaMemGetInfo");
  return static_cast<std::int64_t>(left);
}

/// Lets the kernels of each GPU access the memory of every other, since a stage writes directly into the memory of the
/// next stage. Throws `error` if a GPU cannot access another's memory.
GPIPE_COLD inline void connect_gpus() {
  const int count = gpus();
  for (int gpu = 0; gpu < count; ++gpu) {
    use(gpu);
    for (int peer = 0; peer < count; ++peer) {
      if (peer == gpu) continue;
      int reaches = 0;
      check(cudaDeviceCanAccessPeer(&reaches, gpu, peer), "cudaDeviceCanAccessPeer");
      if (!reaches)
        detail::throw_error({"GPU ", gpu, " cannot access the memory of GPU ", peer},
                            {"choose GPUs that can with CUDA_VISIBLE_DEVICES, or run one process per GPU over NCCL"});
      const cudaError_t found = cudaDeviceEnablePeerAccess(peer, 0);
      if (found == cudaErrorPeerAccessAlreadyEnabled) ignore(found);
      else check(found, "cudaDeviceEnablePeerAccess");
    }
  }
}

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
