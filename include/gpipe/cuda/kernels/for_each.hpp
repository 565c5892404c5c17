#pragma once

#include <cstddef>

#include <thrust/version.h>

#if THRUST_VERSION < 300100
#include <thrust/execution_policy.h>
#include <thrust/for_each.h>
#include <thrust/iterator/counting_iterator.h>
#endif

#include <gpipe/cuda/kernels/launch.hpp>
#include <gpipe/cuda/kernels/reduction_kernels.hpp>
#include <gpipe/cuda/kernels/team.hpp>
#include <gpipe/cuda/stream/stream.hpp>

namespace gpipe::cuda {

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
