#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include <gpipe/cuda/stream/stream.hpp>

namespace gpipe::cuda {

/// Launches a kernel of gpipe, with `shared` bytes of dynamic shared memory per block.
template <class... Terms>
void launch_with_shared(const stream& queue, dim3 grid, dim3 block, std::size_t shared, void (*kernel)(Terms...),
                        Terms... arguments) {
  constexpr std::size_t unasked = 48 << 10;  // more must be requested
  if (shared > unasked)
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared)),
          "cudaFuncSetAttribute");
  cudaLaunchConfig_t configuration{};
  configuration.gridDim = grid;
  configuration.blockDim = block;
  configuration.dynamicSmemBytes = shared;
  configuration.stream = queue.get();
  check(cudaLaunchKernelEx(&configuration, kernel, arguments...), "cudaLaunchKernelEx");
}
/// The same without dynamic shared memory.
template <class... Terms>
void launch(const stream& queue, dim3 grid, dim3 block, void (*kernel)(Terms...), Terms... arguments) {
  launch_with_shared<Terms...>(queue, grid, block, 0, kernel, arguments...);
}

}  // namespace gpipe::cuda
