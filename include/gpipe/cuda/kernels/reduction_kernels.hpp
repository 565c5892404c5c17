#pragma once

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include <gpipe/cuda/kernels/team.hpp>
#include <gpipe/cuda/stream/gpu.hpp>

namespace gpipe::cuda::detail {

// Kernels that Thrust lacks: teams, and sums in a fixed order whose results stay on the GPU.

/// One block per unit of work, up to a limit; beyond it each block does several.
inline dim3 blocks(std::ptrdiff_t work) {
  constexpr std::ptrdiff_t max_blocks = 1 << 16;
  return dim3(static_cast<unsigned>((std::min)(work, max_blocks)));
}

/// f(row, team) for each row, one block per row. The launch bounds ask for one block per multiprocessor: by default
/// ptxas aims at more, and spills registers for it.
template <class F>
__global__ void __launch_bounds__(team::threads, 1) over_rows(std::ptrdiff_t count, F f) {
  for (std::ptrdiff_t row = blockIdx.x; row < count; row += gridDim.x) {
    f(row, team{});
    __syncthreads();
  }
}

inline constexpr int row_warps = team::threads / team::warp;

/// The same for narrow rows, one warp per row.
template <class F>
__global__ void __launch_bounds__(team::threads, 1) over_narrow_rows(std::ptrdiff_t count, F f) {
  const std::ptrdiff_t stride = std::ptrdiff_t{gridDim.x} * row_warps;
  for (std::ptrdiff_t row = std::ptrdiff_t{blockIdx.x} * row_warps + threadIdx.x / team::warp; row < count;
       row += stride) {
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

// change: the order of a sum; over rows
/// The order of the sums over the rows of a matrix with n columns. It depends on the extents alone, so that every GPU
/// adds in the same order:
///
///     rows        0 ... 63, 64 ... 127, ...    blocks of 64 rows, added in T, as on the host; their sums in double
///     parts       several blocks each          a thread adds one part of a column
///     groups      up to 8 parts each           a block of threads adds one group, for 256 / 8 columns
///     the sum     of all groups                the block of threads that arrives last
struct column_parts {
  static constexpr std::ptrdiff_t block = 64;      ///< rows that are added in T
  static constexpr std::ptrdiff_t most = 1 << 17;  ///< sums of parts; a thread for each half fills 132 multiprocessors
  static constexpr std::ptrdiff_t max_group = 8;   ///< parts
  std::ptrdiff_t rows, n, rows_of_part = block, count = 1;
  int group = 1;  ///< parts of a group: 1, 2, 4 or 8

  /// n > 0.
  column_parts(std::ptrdiff_t rows_, std::ptrdiff_t n_) : rows(rows_), n(n_) {
    const std::ptrdiff_t blocks = (std::max)((rows + block - 1) / block, std::ptrdiff_t{1});
    const std::ptrdiff_t wanted = (std::clamp)(most / n, std::ptrdiff_t{1}, blocks);
    const std::ptrdiff_t of_part = (blocks + wanted - 1) / wanted;
    rows_of_part = of_part * block;
    count = (blocks + of_part - 1) / of_part;
    while (group < max_group && group < count) group *= 2;
  }
  GPIPE_HOST_DEVICE int width() const { return team::threads / group; }  ///< columns of a block of threads
  GPIPE_HOST_DEVICE std::ptrdiff_t strips() const { return (n + width() - 1) / width(); }
  GPIPE_HOST_DEVICE std::ptrdiff_t groups() const { return (count + group - 1) / group; }
};

/// sums[column] += the sum of f(row, column) over the rows.
template <class F, class T>
struct column_sum {
  F f;
  T* sums;
};

/// A sum over the rows of `part`: blocks in T, in ascending order, and their sums in double, in ascending order.
template <class F, class T>
__device__ double sum_of_part(const column_parts& parts, const column_sum<F, T>& sum, std::ptrdiff_t part,
                              std::ptrdiff_t column) {
  const std::ptrdiff_t past = (part + 1) * parts.rows_of_part, end = past < parts.rows ? past : parts.rows;
  double total = 0;
  for (std::ptrdiff_t row = part * parts.rows_of_part; row < end;) {
    const std::ptrdiff_t stop = end - row < parts.block ? end : row + parts.block;
    T found = T(0);
    _Pragma("unroll 8")  // loads that do not wait for each other
        for (; row < stop; ++row) found += sum.f(row, column);
    total += static_cast<double>(found);
  }
  return total;
}

// A number that one block writes and another reads, ordered by a fence. Atomic access keeps it out of caches.
__device__ inline void put(double* slot, double value) {
  atomicExch(reinterpret_cast<unsigned long long*>(slot), static_cast<unsigned long long>(__double_as_longlong(value)));
}
__device__ inline double get(double* slot) {
  return __longlong_as_double(static_cast<long long>(atomicOr(reinterpret_cast<unsigned long long*>(slot), 0)));
}

template <class F, class T>
__device__ void add_to(const column_sum<F, T>& sum, std::ptrdiff_t column, double total) {
  sum.sums[column] += static_cast<T>(total);
}

/// All sums over rows, for each column. If there are several groups, they are written to `groups`, {sums, groups, n}.
/// `arrived` has one zero per strip of columns, before and after.
template <class... Sum>
__global__ void __launch_bounds__(team::threads, 1)
    over_columns(column_parts parts, double* groups, unsigned* arrived, Sum... sums) {
  constexpr int count = sizeof...(Sum), threads = team::threads;
  __shared__ double part_sums[count][threads];
  __shared__ bool last;
  const int width = parts.width(), lane = static_cast<int>(threadIdx.x) % width,
            member = static_cast<int>(threadIdx.x) / width;
  const std::ptrdiff_t of_strip = parts.groups(), units = parts.strips() * of_strip;
  for (std::ptrdiff_t i = blockIdx.x; i < units; i += gridDim.x) {
    const std::ptrdiff_t strip = i / of_strip, group = i - strip * of_strip;
    const std::ptrdiff_t column = strip * width + lane, part = group * parts.group + member;
    const bool adds = column < parts.n;
    int w = 0;
    ((part_sums[w++][threadIdx.x] = adds && part < parts.count ? sum_of_part(parts, sums, part, column) : 0), ...);
    __syncthreads();
    const auto of_group = [&](int sum) {
      double total = 0;
      for (int p = 0; p < parts.group; ++p) total += part_sums[sum][p * width + lane];
      return total;
    };
    // The threads of a column share its sums.
    if (of_strip == 1) {
      w = 0;
      if (adds) ((w % parts.group == member ? add_to(sums, column, of_group(w)) : void(), ++w), ...);
    } else {
      if (adds)
        for (w = member; w < count; w += parts.group)
          put(groups + (w * of_strip + group) * parts.n + column, of_group(w));
      __syncthreads();
      if (threadIdx.x == 0) {
        const auto end = static_cast<unsigned>(of_strip - 1);
        __threadfence();  // this block's groups become visible before its arrival, the other blocks' groups after it
        last = atomicInc(arrived + strip, end) == end;
        __threadfence();
      }
      __syncthreads();
      const auto of_column = [&](int sum) {
        double* const first_group = groups + sum * of_strip * parts.n + column;
        double total = 0;
        _Pragma("unroll 8") for (std::ptrdiff_t g = 0; g < of_strip; ++g) total += get(first_group + g * parts.n);
        return total;
      };
      w = 0;
      if (last && adds) ((w % parts.group == member ? add_to(sums, column, of_column(w)) : void(), ++w), ...);
    }
    __syncthreads();
  }
}

inline constexpr std::ptrdiff_t sum_blocks = 256, sum_chunk = 16 * team::threads;

/// sums[b] = the sum of f(i) over part b of gridDim.x parts, in double.
template <class F>
__global__ void __launch_bounds__(team::threads, 1) over_parts(std::ptrdiff_t n, F f, double* sums) {
  const std::ptrdiff_t part = (n + gridDim.x - 1) / gridDim.x, first = part * blockIdx.x;
  const std::ptrdiff_t count = first >= n ? 0 : n - first < part ? n - first : part;
  const double sum = team{}.sum(count, [&f, first](std::ptrdiff_t i) { return static_cast<double>(f(first + i)); });
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

struct number_at {
  const double* numbers;
  __device__ double operator()(std::ptrdiff_t i) const { return numbers[i]; }
};

}  // namespace gpipe::cuda::detail
