#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include <gpipe/core/numbers/math.hpp>
#include <gpipe/core/tensors/dtype.hpp>
#include <gpipe/device/cuda/kernels/reduction_kernels.hpp>
#include <gpipe/layer/contract/attention_shape.hpp>

namespace gpipe::cuda::detail {

// Attention in tiles of 16 queries and 16 keys, without the weights of all pairs (Dao et al., 2022). A block has a
// thread (x, y) for each pair of a tile, and works on one tile of queries, or of keys, from its first partner to its
// last. Thread (x, y) also has the elements x, x + 16, ... of row y of the block's result. There are no atomics: sums
// have a fixed order.

inline constexpr int attention_tile = 16, max_head_width = 256, head_parts = max_head_width / attention_tile;

/// A tile in shared memory; one more column, so that rows begin in different banks.
template <class Number>
struct shared_tile {
  Number at[attention_tile][attention_tile + 1];
};

/// The rows of one head in one sample.
template <class T>
struct head_rows {
  T* first;
  std::ptrdiff_t stride;
  __device__ T* operator[](int row) const { return first + row * stride; }
};
template <class T>
__device__ head_rows<T> rows_of(T* values, const attention_shape::strides& at, std::ptrdiff_t sample, int head) {
  return {values + sample * at.sample + head * at.head, at.row};
}

/// Which keys a query sees: those below `end(query)`.
struct visible_keys {
  int count, shift;  // query i sees keys j < min(count, i + shift)
  __device__ visible_keys(const attention_shape& s, const std::int32_t* lengths, std::ptrdiff_t sample)
      : count(lengths != nullptr ? lengths[sample] : s.keys), shift(s.causal ? s.keys - s.queries + 1 : s.keys) {}
  __device__ int end(int query) const {
    const int last = query + shift;
    return last < 0 ? 0 : last < count ? last : count;
  }
};

/// A block's loops over tiles.
template <class T>
struct tile_worker {
  using number = compute_type<T>;
  shared_tile<number>&left, &right;
  int width;
  int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);

  /// The product of row y of `a` and row x of `b`; 0 beyond their rows.
  __device__ number product(const head_rows<const T>& a, int a_first, int a_end, const head_rows<const T>& b,
                            int b_first, int b_end) const {
    number sum = 0;
    for (int first = 0; first < width; first += attention_tile) {
      __syncthreads();
      left.at[y][x] = a_first + y < a_end && first + x < width ? number(a[a_first + y][first + x]) : number(0);
      right.at[y][x] = b_first + y < b_end && first + x < width ? number(b[b_first + y][first + x]) : number(0);
      __syncthreads();
      for (int d = 0; d < attention_tile; ++d) sum += left.at[y][d] * right.at[x][d];
    }
    return sum;
  }

  /// Adds the sum over j of weights[y][j] m[first + j] to the thread's elements.
  __device__ void add(number (&sums)[head_parts], const shared_tile<number>& weights, const head_rows<const T>& m,
                      int first, int end) const {
    for (int part = 0; part < head_parts; ++part) {
      if (part * attention_tile >= width) break;
      const int d = part * attention_tile + x;
      __syncthreads();
      right.at[y][x] = first + y < end && d < width ? number(m[first + y][d]) : number(0);
      __syncthreads();
      number sum = 0;
      for (int j = 0; j < attention_tile; ++j) sum += weights.at[y][j] * right.at[j][x];
      sums[part] += sum;
    }
  }

  /// Stores the thread's elements of row y times a factor.
  __device__ void store(const number (&sums)[head_parts], number factor, const head_rows<T>& into, int row,
                        int end) const {
    for (int part = 0; part < head_parts; ++part) {
      const int d = part * attention_tile + x;
      if (row < end && d < width) into[row][d] = sums[part] * factor;
    }
  }

  /// The sum over the elements of a row of `o` times those of `d_o`, for row x of 16 rows.
  __device__ number row_product(const head_rows<const T>& o, const head_rows<const T>& d_o, int first, int end) const {
    number sum = 0;
    if (first + y < end)
      for (int d = x; d < width; d += attention_tile) sum += number(o[first + y][d]) * number(d_o[first + y][d]);
    __syncthreads();
    left.at[y][x] = sum;
    __syncthreads();
    sum = 0;
    for (int part = 0; part < attention_tile; ++part) sum += left.at[x][part];
    return sum;
  }
};

/// The work of a block: a tile of rows of a head of a sample.
template <int Tile>
struct attention_work {
  std::ptrdiff_t sample;
  int head, first;

  __device__ attention_work(std::ptrdiff_t index, int heads, int rows)
      : sample(index / tiles(rows) / heads),
        head(static_cast<int>(index / tiles(rows) % heads)),
        first(static_cast<int>(index % tiles(rows)) * Tile) {}
  GPIPE_HOST_DEVICE static int tiles(int rows) { return (rows + Tile - 1) / Tile; }
  GPIPE_HOST_DEVICE static std::ptrdiff_t count(int samples, int heads, int rows) {
    return std::ptrdiff_t{samples} * heads * tiles(rows);
  }
};
using plain_work = attention_work<attention_tile>;

inline constexpr int attention_threads = attention_tile * attention_tile;

/// o and the logarithms of the softmax's sums, for a tile of queries: the softmax is scaled anew when a tile of keys
/// has a larger maximum.
template <class T>
__global__ void __launch_bounds__(attention_threads)
    attend(attention_shape s, const T* q, const T* k, const T* v, const std::int32_t* lengths, T* o,
           compute_type<T>* log_sums) {
  using number = compute_type<T>;
  __shared__ shared_tile<number> left, right, weights;
  const number lowest = -static_cast<number>(INFINITY);
  const tile_worker<T> tile{left, right, s.width};
  const std::ptrdiff_t count = plain_work::count(s.samples, s.heads, s.queries);
  for (std::ptrdiff_t index = blockIdx.x; index < count; index += gridDim.x) {
    const plain_work at(index, s.heads, s.queries);
    const int row = at.first + tile.y, last = at.first + attention_tile - 1;
    const int key_head = at.head / (s.heads / s.key_heads);
    const auto queries = rows_of(q, s.q, at.sample, at.head), keys = rows_of(k, s.k, at.sample, key_head),
               values = rows_of(v, s.v, at.sample, key_head);
    const visible_keys visible(s, lengths, at.sample);
    const int end = visible.end(last < s.queries ? last : s.queries - 1), own_end = visible.end(row);
    number top = lowest, total = 0, sums[head_parts] = {};
    for (int first = 0; first < end; first += attention_tile) {
      const number score = number(s.scale) * tile.product(queries, at.first, s.queries, keys, first, end);
      const bool sees = row < s.queries && first + tile.x < own_end;
      __syncthreads();
      weights.at[tile.y][tile.x] = sees ? score : lowest;
      __syncthreads();
      number higher = top;
      for (int j = 0; j < attention_tile; ++j)
        if (!(weights.at[tile.y][j] <= higher)) higher = weights.at[tile.y][j];
      const number scaled = higher == top ? number(1) : math::exp(top - higher);
      const number weight = sees ? math::exp(score - higher) : number(0);
      __syncthreads();
      weights.at[tile.y][tile.x] = weight;
      __syncthreads();
      number sum = 0;
      for (int j = 0; j < attention_tile; ++j) sum += weights.at[tile.y][j];
      total = total * scaled + sum;
      top = higher;
      for (number& of_row : sums) of_row *= scaled;
      tile.add(sums, weights, values, first, end);
    }
    const bool empty = own_end == 0;
    tile.store(sums, empty ? number(0) : number(1) / total, rows_of(o, s.o, at.sample, at.head), row, s.queries);
    if (tile.x == 0 && row < s.queries)
      log_sums[(at.sample * s.heads + at.head) * s.queries + row] = empty ? lowest : top + std::log(total);
  }
}

/// dq for a tile of queries: p = e^(s - L), ds = p (dp - d) scale, dq = sum over keys of ds k, with dp = do v^T and
/// d = the sum of o do over a row.
template <class T>
__global__ void __launch_bounds__(attention_threads)
    differentiate_queries(attention_shape s, const T* q, const T* k, const T* v, const std::int32_t* lengths,
                          const T* o, const compute_type<T>* log_sums, const T* d_o, T* d_q) {
  using number = compute_type<T>;
  __shared__ shared_tile<number> left, right, weights;
  const tile_worker<T> tile{left, right, s.width};
  const std::ptrdiff_t count = plain_work::count(s.samples, s.heads, s.queries);
  for (std::ptrdiff_t index = blockIdx.x; index < count; index += gridDim.x) {
    const plain_work at(index, s.heads, s.queries);
    const int row = at.first + tile.y, last = at.first + attention_tile - 1;
    const int key_head = at.head / (s.heads / s.key_heads);
    const auto queries = rows_of(q, s.q, at.sample, at.head), keys = rows_of(k, s.k, at.sample, key_head),
               values = rows_of(v, s.v, at.sample, key_head), mixed = rows_of(o, s.o, at.sample, at.head),
               of_mixed = rows_of(d_o, s.o, at.sample, at.head);
    const visible_keys visible(s, lengths, at.sample);
    const int end = visible.end(last < s.queries ? last : s.queries - 1), own_end = visible.end(row);
    const number of_row_x = tile.row_product(mixed, of_mixed, at.first, s.queries);
    __syncthreads();
    weights.at[0][tile.x] = of_row_x;  // the same from all rows of threads
    __syncthreads();
    const number of_row = weights.at[0][tile.y];
    const number log_sum = row < s.queries ? log_sums[(at.sample * s.heads + at.head) * s.queries + row] : number(0);
    number sums[head_parts] = {};
    for (int first = 0; first < end; first += attention_tile) {
      const number score = number(s.scale) * tile.product(queries, at.first, s.queries, keys, first, end);
      const number of_weight = tile.product(of_mixed, at.first, s.queries, values, first, end);
      const bool sees = row < s.queries && first + tile.x < own_end;
      const number weight = sees ? math::exp(score - log_sum) : number(0);
      __syncthreads();
      weights.at[tile.y][tile.x] = sees ? weight * (of_weight - of_row) * number(s.scale) : number(0);
      tile.add(sums, weights, keys, first, end);
    }
    tile.store(sums, number(1), rows_of(d_q, s.q, at.sample, at.head), row, s.queries);
  }
}

/// dk and dv for a tile of keys, over the query heads that share it: dv = sum over queries of p do, dk = that of ds q.
/// Here thread (x, y) has the pair of key y and query x.
template <class T>
__global__ void __launch_bounds__(attention_threads)
    differentiate_keys(attention_shape s, const T* q, const T* k, const T* v, const std::int32_t* lengths, const T* o,
                       const compute_type<T>* log_sums, const T* d_o, T* d_k, T* d_v) {
  using number = compute_type<T>;
  __shared__ shared_tile<number> left, right, weights;
  const tile_worker<T> tile{left, right, s.width};
  const std::ptrdiff_t count = plain_work::count(s.samples, s.key_heads, s.keys);
  const int group = s.heads / s.key_heads;
  for (std::ptrdiff_t index = blockIdx.x; index < count; index += gridDim.x) {
    const plain_work at(index, s.key_heads, s.keys);
    const int row = at.first + tile.y;
    const auto keys = rows_of(k, s.k, at.sample, at.head), values = rows_of(v, s.v, at.sample, at.head);
    const visible_keys visible(s, lengths, at.sample);
    const int end = visible.count < s.keys ? visible.count : s.keys;
    const int earliest = s.causal && at.first > s.keys - s.queries ? at.first - (s.keys - s.queries) : 0;
    number of_keys[head_parts] = {}, of_values[head_parts] = {};
    for (int head = at.head * group; at.first < end && head < (at.head + 1) * group; ++head) {
      const auto queries = rows_of(q, s.q, at.sample, head), mixed = rows_of(o, s.o, at.sample, head),
                 of_mixed = rows_of(d_o, s.o, at.sample, head);
      for (int first = earliest / attention_tile * attention_tile; first < s.queries; first += attention_tile) {
        const int query = first + tile.x;
        const number of_row = tile.row_product(mixed, of_mixed, first, s.queries);
        const number score = number(s.scale) * tile.product(keys, at.first, end, queries, first, s.queries);
        const number of_weight = tile.product(values, at.first, end, of_mixed, first, s.queries);
        const bool sees = query < s.queries && row < visible.end(query);
        const number log_sum = sees ? log_sums[(at.sample * s.heads + head) * s.queries + query] : number(0);
        const number weight = sees ? math::exp(score - log_sum) : number(0);
        __syncthreads();
        weights.at[tile.y][tile.x] = weight;
        tile.add(of_values, weights, of_mixed, first, s.queries);
        __syncthreads();
        weights.at[tile.y][tile.x] = sees ? weight * (of_weight - of_row) * number(s.scale) : number(0);
        tile.add(of_keys, weights, queries, first, s.queries);
      }
    }
    tile.store(of_keys, number(1), rows_of(d_k, s.k, at.sample, at.head), row, s.keys);
    tile.store(of_values, number(1), rows_of(d_v, s.v, at.sample, at.head), row, s.keys);
  }
}

}  // namespace gpipe::cuda::detail
