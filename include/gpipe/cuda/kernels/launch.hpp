#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include <gpipe/cuda/stream/stream.hpp>

namespace gpipe::cuda {

/// Launches a kernel of gpipe's own, with `shared` bytes of dynamic shared memory for each block.
template <class... Terms>
void launch_with_shared(const stream& on, dim3 grid, dim3 block, std::size_t shared, void (*kernel)(Terms...),
                        Terms... given) {
  constexpr std::size_t unasked = 48 << 10;  // more must be asked for
  if (shared > unasked)
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared)),
          "cudaFuncSetAttribute");
  cudaLaunchConfig_t how{};
  how.gridDim = grid;
  how.blockDim = block;
  how.dynamicSmemBytes = shared;
  how.stream = on.get();
  check(cudaLaunchKernelEx(&how, kernel, given...), "cudaLaunchKernelEx");
}
/// The same without dynamic shared memory.
template <class... Terms>
void launch(const stream& on, dim3 grid, dim3 block, void (*kernel)(Terms...), Terms... given) {
  launch_with_shared<Terms...>(on, grid, block, 0, kernel, given...);
}

}  // namespace gpipe::cuda
