#pragma once

#include <cstddef>

#include <thrust/execution_policy.h>
#include <thrust/for_each.h>
#include <thrust/iterator/counting_iterator.h>

#include <gpipe/device/cuda/stream/stream.hpp>

namespace gpipe::cuda {

/// f(i) for i in [0, n), in any order.
template <class F>
void for_each(const stream& on, std::ptrdiff_t n, F f) {
  thrust::for_each_n(thrust::cuda::par_nosync.on(on.get()), thrust::counting_iterator<std::ptrdiff_t>(0), n, f);
}

}  // namespace gpipe::cuda
