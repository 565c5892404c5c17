#pragma once

#include <cstdint>

#include <gpipe/device/cuda/stream/check.hpp>

namespace gpipe::cuda {

/// GPUs that this process may use, as CUDA_VISIBLE_DEVICES leaves them: 0 where there is no driver, too.
GPIPE_ONCE inline int gpus() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : (static_cast<void>(cudaGetLastError()), 0);
}

/// Refuses a machine without a GPU, with what CUDA says.
GPIPE_ONCE inline void require_gpu() {
  int count = 0;
  check(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  check(count > 0 ? cudaSuccess : cudaErrorNoDevice, "cudaGetDeviceCount");
}

/// What the calling thread asks for from now on goes to this GPU.
inline void use(int gpu) { check(cudaSetDevice(gpu), "cudaSetDevice"); }

/// Bytes of a GPU that nobody uses.
GPIPE_ONCE inline std::int64_t memory_left(int gpu) {
  use(gpu);
  std::size_t left = 0, all = 0;
  check(cudaMemGetInfo(&left, &all), "cudaMemGetInfo");
  return static_cast<std::int64_t>(left);
}

/// Lets the kernels of each GPU reach into the memory of every other, since a stage writes straight into the memory of
/// the next. Throws `error` where two of them cannot.
GPIPE_ONCE inline void connect_gpus() {
  const int count = gpus();
  for (int from = 0; from < count; ++from) {
    use(from);
    for (int to = 0; to < count; ++to) {
      if (to == from) continue;
      int reaches = 0;
      check(cudaDeviceCanAccessPeer(&reaches, from, to), "cudaDeviceCanAccessPeer");
      if (!reaches)
        detail::refuse({"GPU ", from, " cannot reach the memory of GPU ", to},
                       {"choose GPUs that can by CUDA_VISIBLE_DEVICES, or run a process for each, over NCCL"});
      const cudaError_t found = cudaDeviceEnablePeerAccess(to, 0);
      if (found == cudaErrorPeerAccessAlreadyEnabled) static_cast<void>(cudaGetLastError());
      else check(found, "cudaDeviceEnablePeerAccess");
    }
  }
}

}  // namespace gpipe::cuda
