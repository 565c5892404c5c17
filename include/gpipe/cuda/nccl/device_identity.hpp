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
    device_identity identity;
    static_assert(sizeof identity.bytes == sizeof found.uuid.bytes);
    std::memcpy(identity.bytes, found.uuid.bytes, sizeof identity.bytes);
    return identity;
  }
  bool operator==(const device_identity& right) const { return std::memcmp(bytes, right.bytes, sizeof bytes) == 0; }
};

/// Rejects two ranks on one GPU, for which NCCL reports only an invalid usage.
GPIPE_COLD inline void require_apart(int first, const device_identity& first_gpu, int second,
                                     const device_identity& second_gpu) {
  if (first_gpu == second_gpu)
    gpipe::detail::throw_error(
        {"ranks ", (std::min)(first, second), " and ", (std::max)(first, second),
         " have the same GPU, and NCCL needs one GPU per rank"},
        {"start one process per GPU, or let one process have several stages: they share its GPU"});
}

}  // namespace gpipe::nccl
