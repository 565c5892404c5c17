#pragma once

#include <cstddef>
#include <cstdint>

#include <gpipe/core/tensors/dtype.hpp>
#include <gpipe/cuda/kernels/team.hpp>

namespace gpipe::cuda::detail {

// Adds rows to the rows of another matrix, several to one, in ascending order and without atomic operations. The rows
// are sorted by their targets, so that the rows of a target are adjacent:
//
//     targets     5  2  5  9  2  5
//     keys        2.1  2.4  5.0  5.2  5.5  9.3            sort_tiles, merge_runs
//     result      2 += 1, 4;  5 += 0, 2, 5;  9 += 3       add_runs

/// A target in the upper half, and a row's number in the lower: keys are unique, so that the order is stable.
using row_key = std::uint64_t;
__device__ inline std::int32_t target_of(row_key key) { return static_cast<std::int32_t>(key >> 32); }
__device__ inline std::int32_t row_of(row_key key) { return static_cast<std::int32_t>(key & 0xffffffffU); }

/// Sorts the keys of each 256 rows. A key's place is the number of smaller keys.
template <class Target>
__global__ void __launch_bounds__(team::threads)
    sort_tiles(std::ptrdiff_t count, const Target* targets, row_key* sorted) {
  __shared__ row_key keys[team::threads];
  const std::ptrdiff_t first = std::ptrdiff_t{blockIdx.x} * team::threads, row = first + threadIdx.x;
  const bool exists = row < count;
  const row_key key =
      exists ? row_key{static_cast<std::uint32_t>(targets[row])} << 32 | static_cast<std::uint32_t>(row) : ~row_key{0};
  keys[threadIdx.x] = key;
  __syncthreads();
  int place = 0;
  for (int i = 0; i < team::threads; ++i) place += keys[i] < key ? 1 : 0;
  if (exists) sorted[first + place] = key;
}

inline constexpr std::ptrdiff_t merged_runs = 8;
inline constexpr int merge_threads = 64;  ///< small blocks: 8,192 keys keep 128 multiprocessors busy

/// Merges each 8 sorted runs of `run` keys. A key's place is the number of smaller keys in all of them.
template <class Key>
__global__ void __launch_bounds__(merge_threads)
    merge_runs(std::ptrdiff_t count, std::ptrdiff_t run, const Key* keys, Key* merged) {
  const std::ptrdiff_t i = std::ptrdiff_t{blockIdx.x} * merge_threads + threadIdx.x;
  if (i >= count) return;
  const Key key = keys[i];
  const std::ptrdiff_t begin = i / (run * merged_runs) * (run * merged_runs), own_run = i / run * run;
  std::ptrdiff_t place = begin;
  for (std::ptrdiff_t r = 0; r < merged_runs; ++r) {
    const std::ptrdiff_t first = begin + r * run;
    if (first >= count) break;
    std::ptrdiff_t low = 0, high = count - first < run ? count - first : run;  // the number of smaller keys
    if (first == own_run) low = high = i - own_run;
    while (low < high) {
      const std::ptrdiff_t middle = (low + high) / 2;
      if (keys[first + middle] < key) low = middle + 1;
      else high = middle;
    }
    place += low;
  }
  merged[place] = key;
}

inline constexpr int thread_columns = 4, added_columns = thread_columns * team::warp;  ///< of a thread, and of a warp

/// result[target][j] += scale * rows[row][j] for each key, in order: one warp per run of a target and 128 columns.
template <class T>
__global__ void __launch_bounds__(team::threads)
    add_runs(std::ptrdiff_t count, std::ptrdiff_t width, const row_key* keys, const T* rows, compute_type<T> scale,
             compute_type<T>* result) {
  using number = compute_type<T>;
  constexpr unsigned warp_mask = 0xffffffffU;
  constexpr std::ptrdiff_t warps = team::threads / team::warp;
  const int lane = static_cast<int>(threadIdx.x % team::warp);
  const std::ptrdiff_t strips = (width + added_columns - 1) / added_columns, stride = gridDim.x * warps;
  for (std::ptrdiff_t i = blockIdx.x * warps + threadIdx.x / team::warp; i < count * strips; i += stride) {
    std::ptrdiff_t position = i / strips;
    const std::ptrdiff_t column = (i - position * strips) * added_columns + lane;
    const std::int32_t target = target_of(keys[position]);
    if (position > 0 && target_of(keys[position - 1]) == target) continue;  // not the first of its run
    bool inside[thread_columns];
    number sums[thread_columns], *const target_row = result + std::ptrdiff_t{target} * width + column;
    for (int c = 0; c < thread_columns; ++c) {
      inside[c] = column + c * team::warp < width;
      sums[c] = inside[c] ? target_row[c * team::warp] : number(0);
    }
    for (int some = team::warp; some == team::warp; position += team::warp) {
      const row_key key = position + lane < count ? keys[position + lane] : ~row_key{0};
      some = __popc(__ballot_sync(warp_mask, target_of(key) == target));  // the run's keys are the first
      _Pragma("unroll 8")                                                 // loads that do not wait for each other
          for (int k = 0; k < some; ++k) {
        const T* const x = rows + std::ptrdiff_t{__shfl_sync(warp_mask, row_of(key), k)} * width + column;
        for (int c = 0; c < thread_columns; ++c)
          if (inside[c]) sums[c] += number(x[c * team::warp]) * scale;
      }
    }
    for (int c = 0; c < thread_columns; ++c)
      if (inside[c]) target_row[c * team::warp] = sums[c];
  }
}

}  // namespace gpipe::cuda::detail
