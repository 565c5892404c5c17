#pragma once

#include <cuda_runtime.h>

#include <gpipe/device/cuda/stream/stream.hpp>

namespace gpipe::cuda {

/// Launches a kernel of gpipe's own.
template <class... Terms>
void launch(const stream& on, dim3 grid, dim3 block, void (*kernel)(Terms...), Terms... given) {
  cudaLaunchConfig_t how{};
  how.gridDim = grid;
  how.blockDim = block;
  how.stream = on.get();
  check(cudaLaunchKernelEx(&how, kernel, given...), "cudaLaunchKernelEx");
}

}  // namespace gpipe::cuda
