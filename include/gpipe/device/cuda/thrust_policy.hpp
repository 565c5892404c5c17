#pragma once

#include <thrust/execution_policy.h>

#include <gpipe/device/cuda/context.hpp>

namespace gpipe::cuda {

/// The policy with which a layer's kernels call Thrust's algorithms on this context: enqueued in its stream, and nothing
/// waits. An algorithm that returns a value waits for it, which a kernel of a layer may not.
inline auto thrust_policy(const context& on) { return thrust::cuda::par_nosync.on(on.queue().get()); }

}  // namespace gpipe::cuda
