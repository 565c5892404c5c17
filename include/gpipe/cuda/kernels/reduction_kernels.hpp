#pragma once

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include <gpipe/cuda/kernels/team.hpp>
#include <gpipe/cuda/stream/check.hpp>

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

/// How the sums over the rows of a matrix with n columns are made. It depends on the extents alone, so that every GPU
/// adds up in one order:
///
///     rows        0 ... 63, 64 ... 127, ...    blocks of 64 rows, in T, as on the host; their sums in double,
///     parts       some blocks each             of which a thread adds up one for a column
///     groups      up to 8 parts each           which a block of threads adds up, for 256 / 8 columns
///     the sum     of all groups                by the block of threads that comes last
struct column_parts {
  static constexpr std::ptrdiff_t block = 64;      ///< rows that are added up in T
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

/// What `columns` adds up: f(row, column), into[column] += the sum.
template <class F, class T>
struct column_sum {
  F f;
  T* into;
};

/// A sum over the rows of `part`: blocks in T, in ascending order, and their sums in double, in ascending order.
template <class F, class T>
__device__ double sum_of_part(const column_parts& of, const column_sum<F, T>& sum, std::ptrdiff_t part,
                              std::ptrdiff_t column) {
  const std::ptrdiff_t past = (part + 1) * of.rows_of_part, end = past < of.rows ? past : of.rows;
  double total = 0;
  for (std::ptrdiff_t row = part * of.rows_of_part; row < end;) {
    const std::ptrdiff_t stop = end - row < of.block ? end : row + of.block;
    T found = T(0);
    _Pragma("unroll 8")  // loads that do not wait for each other
        for (; row < stop; ++row) found += sum.f(row, column);
    total += static_cast<double>(found);
  }
  return total;
}

// A number that a block leaves for another one, whose order a fence makes: atomic, so that nothing is kept in a cache.
__device__ inline void put(double* at, double value) {
  atomicExch(reinterpret_cast<unsigned long long*>(at), static_cast<unsigned long long>(__double_as_longlong(value)));
}
__device__ inline double get(double* at) {
  return __longlong_as_double(static_cast<long long>(atomicOr(reinterpret_cast<unsigned long long*>(at), 0)));
}

template <class F, class T>
__device__ void add_to(const column_sum<F, T>& sum, std::ptrdiff_t column, double total) {
  sum.into[column] += static_cast<T>(total);
}

/// All sums over rows, for each column. Several groups are written to `groups`, {sums, groups, n}. `arrived` has a zero
/// for each strip of columns, and has zeros again at the end.
template <class... Sum>
__global__ void __launch_bounds__(team::threads, 1)
    over_columns(column_parts of, double* groups, unsigned* arrived, Sum... sums) {
  constexpr int count = sizeof...(Sum), threads = team::threads;
  __shared__ double found[count][threads];
  __shared__ bool last;
  const int width = of.width(), lane = static_cast<int>(threadIdx.x) % width,
            own = static_cast<int>(threadIdx.x) / width;
  const std::ptrdiff_t of_strip = of.groups(), all = of.strips() * of_strip;
  for (std::ptrdiff_t i = blockIdx.x; i < all; i += gridDim.x) {
    const std::ptrdiff_t strip = i / of_strip, group = i - strip * of_strip;
    const std::ptrdiff_t column = strip * width + lane, part = group * of.group + own;
    const bool adds = column < of.n;
    int w = 0;
    ((found[w++][threadIdx.x] = adds && part < of.count ? sum_of_part(of, sums, part, column) : 0), ...);
    __syncthreads();
    const auto of_group = [&](int which) {
      double total = 0;
      for (int p = 0; p < of.group; ++p) total += found[which][p * width + lane];
      return total;
    };
    // The threads of a column share its sums.
    if (of_strip == 1) {
      w = 0;
      if (adds) ((w % of.group == own ? add_to(sums, column, of_group(w)) : void(), ++w), ...);
    } else {
      if (adds)
        for (w = own; w < count; w += of.group) put(groups + (w * of_strip + group) * of.n + column, of_group(w));
      __syncthreads();
      if (threadIdx.x == 0) {
        const auto end = static_cast<unsigned>(of_strip - 1);
        __threadfence();  // the block's groups are there before it arrives, and those of others after it
        last = atomicInc(arrived + strip, end) == end;
        __threadfence();
      }
      __syncthreads();
      const auto of_column = [&](int which) {
        double* const from = groups + which * of_strip * of.n + column;
        double total = 0;
        _Pragma("unroll 8") for (std::ptrdiff_t g = 0; g < of_strip; ++g) total += get(from + g * of.n);
        return total;
      };
      w = 0;
      if (last && adds) ((w % of.group == own ? add_to(sums, column, of_column(w)) : void(), ++w), ...);
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
