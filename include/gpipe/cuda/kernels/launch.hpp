#pragma once

#include <cuda_runtime.h>
#include <thrust/version.h>

#if THRUST_VERSION < 300100
#include <thrust/execution_policy.h>
#include <thrust/for_each.h>
#include <thrust/iterator/counting_iterator.h>
#endif

#include <cstddef>

#include <gpipe/cuda/kernels/reduction_kernels.hpp>
#include <gpipe/cuda/kernels/team.hpp>
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

#if THRUST_VERSION < 300100

/// f(i) for i in [0, n), in any order.
template <class F>
void for_each(const stream& queue, std::ptrdiff_t n, F f) {
  thrust::for_each_n(thrust::cuda::par_nosync.on(queue.get()), thrust::counting_iterator<std::ptrdiff_t>(0), n, f);
}

#else  // The host code that nvcc writes for Thrust's kernel says `cuda::std`: ambiguous after `using namespace gpipe;`.

namespace detail {

template <class F>
__global__ void __launch_bounds__(team::threads) over_indices(std::ptrdiff_t n, F f) {
  const std::ptrdiff_t stride = std::ptrdiff_t{gridDim.x} * team::threads;
  for (std::ptrdiff_t i = std::ptrdiff_t{blockIdx.x} * team::threads + threadIdx.x; i < n; i += stride) f(i);
}

}  // namespace detail

/// f(i) for i in [0, n), in any order.
template <class F>
void for_each(const stream& queue, std::ptrdiff_t n, F f) {
  if (n <= 0) return;
  launch(queue, detail::blocks((n + team::threads - 1) / team::threads), dim3(team::threads), detail::over_indices<F>,
         n, f);
}

#endif

}  // namespace gpipe::cuda
