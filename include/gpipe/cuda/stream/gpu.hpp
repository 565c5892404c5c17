#pragma once

#include <cstdint>

#include <gpipe/cuda/stream/check.hpp>

namespace gpipe::cuda {

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

}  // namespace gpipe::cuda
