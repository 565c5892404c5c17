#pragma once

#include <algorithm>
#include <cstring>

#include <gpipe/cuda/stream/gpu.hpp>

namespace gpipe::nccl {

/// Identifies a GPU among all GPUs of all hosts.
struct device_identity {
  char bytes[16]{};

  GPIPE_COLD static device_identity of(int gpu) {
    cudaDeviceProp found{};
    cuda::check(cudaGetDeviceProperties(&found, gpu), "cudaGetDeviceProperties");
    device_identity it;
    static_assert(sizeof it.bytes == sizeof found.uuid.bytes);
    std::memcpy(it.bytes, found.uuid.bytes, sizeof it.bytes);
    return it;
  }
  bool operator==(const device_identity& other) const { return std::memcmp(bytes, other.bytes, sizeof bytes) == 0; }
};

/// Rejects two ranks on one GPU, for which NCCL reports only an invalid usage.
GPIPE_COLD inline void require_apart(int one, const device_identity& gpu_of_one, int other,
                                     const device_identity& gpu_of_other) {
  if (gpu_of_one == gpu_of_other)
    gpipe::detail::throw_error(
        {"ranks ", (std::min)(one, other), " and ", (std::max)(one, other),
         " have the same GPU, and NCCL needs one GPU per rank"},
        {"start one process per GPU, or let one process have several stages: they share its GPU"});
}

}  // namespace gpipe::nccl
