#pragma once

#include <algorithm>
#include <cstddef>

#include <gpipe/device/cuda/kernels/team.hpp>
#include <gpipe/device/cuda/stream/check.hpp>

namespace gpipe::cuda::detail {

// Kernels that Thrust lacks: teams, and sums in a fixed order whose results stay on the GPU.

/// One block per unit of work, up to a limit: beyond it each block does more.
inline dim3 blocks(std::ptrdiff_t work) {
  constexpr std::ptrdiff_t max_blocks = 1 << 16;
  return dim3(static_cast<unsigned>((std::min)(work, max_blocks)));
}

/// f(row, team) for each row, a block at a time. One block a multiprocessor must be possible: by default ptxas aims at
/// more, and spills registers for it.
template <class F>
__global__ void __launch_bounds__(team::threads, 1) over_rows(std::ptrdiff_t count, F f) {
  for (std::ptrdiff_t row = blockIdx.x; row < count; row += gridDim.x) {
    f(row, team{});
    __syncthreads();
  }
}

inline constexpr int column_lanes = 32;  ///< columns of a block, and threads per column

/// into[j] += the sum over rows of f(row, j): a thread l adds up rows l, l + 32, ..., then threads in pairs 16 apart,
/// 8, 4, 2, 1.
template <class F, class T>
__global__ void __launch_bounds__(column_lanes* column_lanes)
    over_columns(std::ptrdiff_t rows, std::ptrdiff_t n, F f, T* into) {
  __shared__ T part[column_lanes][column_lanes + 1];  // one more, so that a column spans all banks
  const int lane = static_cast<int>(threadIdx.x), thread = static_cast<int>(threadIdx.y);
  const std::ptrdiff_t all = std::ptrdiff_t{gridDim.x} * column_lanes;
  for (std::ptrdiff_t first = std::ptrdiff_t{blockIdx.x} * column_lanes; first < n; first += all) {
    T partial = T(0);
    if (first + lane < n)
      for (std::ptrdiff_t row = thread; row < rows; row += column_lanes) partial += f(row, first + lane);
    part[thread][lane] = partial;
    __syncthreads();
    T sum = part[lane][thread];
    for (int apart = column_lanes / 2; apart > 0; apart /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, apart);
    if (lane == 0 && first + thread < n) into[first + thread] += sum;
    __syncthreads();
  }
}

inline constexpr std::ptrdiff_t sum_blocks = 256, sum_chunk = 16 * team::threads;

/// into[b] = the sum of f(i) over part b of gridDim.x parts, in double.
template <class F>
__global__ void __launch_bounds__(team::threads, 1) over_parts(std::ptrdiff_t n, F f, double* into) {
  const std::ptrdiff_t part = (n + gridDim.x - 1) / gridDim.x, first = part * blockIdx.x;
  const std::ptrdiff_t count = first >= n ? 0 : n - first < part ? n - first : part;
  const double sum = team{}.sum(count, [&f, first](std::ptrdiff_t i) { return static_cast<double>(f(first + i)); });
  if (threadIdx.x == 0) into[blockIdx.x] = sum;
}

struct number_at {
  const double* at;
  __device__ double operator()(std::ptrdiff_t i) const { return at[i]; }
};

}  // namespace gpipe::cuda::detail
