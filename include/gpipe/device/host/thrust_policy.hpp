#pragma once

#if !__has_include(<thrust/execution_policy.h>)
#error "gpipe needs Thrust: install libthrust-dev (Debian, Ubuntu), or add a CUDA toolkit's include/cccl with -I"
#endif

// Thrust's second system is CUDA by default, which only nvcc compiles.
#if !defined(THRUST_DEVICE_SYSTEM) && !defined(__CUDACC__)
#define THRUST_DEVICE_SYSTEM THRUST_DEVICE_SYSTEM_CPP
#endif

#include <thrust/execution_policy.h>

#include <gpipe/device/host/context.hpp>

namespace gpipe::host {

/// The policy with which a layer's kernels call Thrust's algorithms on this context. They run at once, on the calling
/// thread: `thrust::transform(thrust_policy(context), ...)`.
template <class Gemm, class Attention, class Convolution>
constexpr auto thrust_policy(const basic_context<Gemm, Attention, Convolution>&) {
  return thrust::seq;
}

}  // namespace gpipe::host
