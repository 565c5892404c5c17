#pragma once

#include <algorithm>
#include <cstddef>
#include <type_traits>

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

inline constexpr int row_warps = team::threads / team::warp;

/// The same for narrow rows, a warp at a time.
template <class F>
__global__ void __launch_bounds__(team::threads, 1) over_narrow_rows(std::ptrdiff_t count, F f) {
  const std::ptrdiff_t apart = std::ptrdiff_t{gridDim.x} * row_warps;
  for (std::ptrdiff_t row = std::ptrdiff_t{blockIdx.x} * row_warps + threadIdx.x / team::warp; row < count;
       row += apart) {
    f(row, warp_team{});
    __syncwarp();
  }
}

/// Whether a functor of rows has a constant width, and whether it has one at all.
template <class F>
concept has_constant_width = requires {
  typename std::integral_constant<std::ptrdiff_t, F::row_width()>;
};
template <class F>
concept has_width = requires(const F& f) {
  f.row_width();
};

/// How the sums over the rows of a matrix with n columns are made: the rows in blocks of 64, as on the host, and the
/// blocks in parts, each of which a thread adds up for a column. It depends on the extents alone, so that every GPU
/// adds up in one order.
struct column_parts {
  static constexpr std::ptrdiff_t block = 64;      ///< rows that are added up in T
  static constexpr std::ptrdiff_t most = 1 << 17;  ///< sums of parts; a thread for each half fills 132 multiprocessors
  std::ptrdiff_t rows, n, rows_of_part = block, count = 1;

  /// n > 0.
  column_parts(std::ptrdiff_t rows_, std::ptrdiff_t n_) : rows(rows_), n(n_) {
    const std::ptrdiff_t blocks = (std::max)((rows + block - 1) / block, std::ptrdiff_t{1});
    const std::ptrdiff_t wanted = (std::clamp)(most / n, std::ptrdiff_t{1}, blocks);
    const std::ptrdiff_t of_part = (blocks + wanted - 1) / wanted;
    rows_of_part = of_part * block;
    count = (blocks + of_part - 1) / of_part;
  }
};

/// The sum of f(row, column) over each part of the rows: blocks in T, in ascending order, and their sums in double, in
/// ascending order. Several parts are written to `parts`, {count, n}; a single one is rounded and added to `into`.
template <class F, class T>
__global__ void __launch_bounds__(team::threads) over_columns(column_parts of, F f, T* into, double* parts) {
  const std::ptrdiff_t all = of.n * of.count, apart = std::ptrdiff_t{gridDim.x} * team::threads;
  for (std::ptrdiff_t i = std::ptrdiff_t{blockIdx.x} * team::threads + threadIdx.x; i < all; i += apart) {
    const std::ptrdiff_t part = i / of.n, column = i - part * of.n, past = (part + 1) * of.rows_of_part;
    const std::ptrdiff_t end = past < of.rows ? past : of.rows;
    double total = 0;
    for (std::ptrdiff_t row = part * of.rows_of_part; row < end;) {
      const std::ptrdiff_t stop = end - row < of.block ? end : row + of.block;
      T sum = T(0);
      _Pragma("unroll 8")  // loads that do not wait for each other
          for (; row < stop; ++row) sum += f(row, column);
      total += static_cast<double>(sum);
    }
    if (of.count == 1) into[column] += static_cast<T>(total);
    else parts[i] = total;
  }
}

inline constexpr int column_lanes = 32;  ///< columns of a block, and ranges of parts

/// into[j] += the sum of parts[p][j] over p: 32 ranges of parts, each in ascending order, then the ranges in order. All
/// is in double, and rounded once.
template <class T>
__global__ void __launch_bounds__(column_lanes* column_lanes)
    over_column_parts(std::ptrdiff_t n, std::ptrdiff_t count, const double* parts, T* into) {
  __shared__ double found[column_lanes][column_lanes];
  const int lane = static_cast<int>(threadIdx.x), range = static_cast<int>(threadIdx.y);
  const std::ptrdiff_t size = (count + column_lanes - 1) / column_lanes, begin = range * size;
  const std::ptrdiff_t end = begin + size < count ? begin + size : count;
  const std::ptrdiff_t apart = std::ptrdiff_t{gridDim.x} * column_lanes;
  for (std::ptrdiff_t first = std::ptrdiff_t{blockIdx.x} * column_lanes; first < n; first += apart) {
    const std::ptrdiff_t column = first + lane;
    double total = 0;
    if (column < n)
      for (std::ptrdiff_t p = begin; p < end; ++p) total += parts[p * n + column];
    found[range][lane] = total;
    __syncthreads();
    if (range == 0 && column < n) {
      double sum = 0;
      for (int r = 0; r < column_lanes; ++r) sum += found[r][lane];
      into[column] += static_cast<T>(sum);
    }
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
