#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include <gpipe/core/config.hpp>
#include <gpipe/core/numbers/math.hpp>
#include <gpipe/core/tensors/dtype.hpp>
#include <gpipe/cuda/kernels/reduction_kernels.hpp>
#include <gpipe/layer/contract/attention_shape.hpp>

namespace gpipe::cuda::detail {

// Attention in tiles of 64 queries and 64 keys, without the weights of all pairs (Dao et al., 2022). A block has 16 x
// 16 threads, and works on one tile of queries, or of keys, from its first partner to its last. Thread (x, y) has the
// pairs of rows y, y + 16, y + 32, y + 48 with partners x, x + 16, x + 32, x + 48, and elements x, x + 16, ... of the
// same rows of the block's result. So it loads 8 factors from shared memory for 16 products, 16 bytes at once. A block
// of a wide head has the results of some columns, and computes the weights for them. There are no atomics: sums have a
// fixed order.

inline constexpr int attention_tile = 64, attention_lanes = 16, attention_threads = attention_lanes * attention_lanes;
inline constexpr int max_head_width = 256;

/// The rows of one head in one sample.
template <class T>
struct head_rows {
  T* first;
  std::ptrdiff_t stride;
  __device__ T* operator[](int row) const { return first + row * stride; }
};
template <class T>
__device__ head_rows<T> rows_of(T* values, const attention_shape::strides& strides, std::ptrdiff_t sample, int head) {
  return {values + sample * strides.sample + head * strides.head, strides.row};
}

// change: an attention mask
/// The keys that a query sees: keys [0, end(query)).
struct visible_keys {
  int count, shift;  // query i sees keys j < min(count, i + shift); a length is clamped to 0 ... keys
  __device__ visible_keys(const attention_shape& shape, const std::int32_t* lengths, std::ptrdiff_t sample)
      : count(lengths != nullptr ? within(lengths[sample], shape.keys) : shape.keys),
        shift(shape.causal ? shape.keys - shape.queries + 1 : shape.keys) {}
  __device__ static int within(int length, int keys) { return length < 0 ? 0 : length < keys ? length : keys; }
  __device__ int end(int query) const {
    const int last = query + shift;
    return last < 0 ? 0 : last < count ? last : count;
  }
};

/// Numbers that are loaded from shared memory at once.
template <class Number>
struct alignas(16) number_vector {
  static constexpr int count = 16 / sizeof(Number);
  Number value[count];
};

/// A block's shared memory. Rows have one vector more, so that they begin in different banks.
template <class Number>
struct attention_memory {
  using vector = number_vector<Number>;
  static constexpr int deep = 64 / sizeof(Number);  ///< columns of factors at once, or partners
  alignas(vector) Number weights[attention_tile][attention_tile + vector::count];
  alignas(vector) Number factors[2][attention_tile][deep + vector::count];
  Number products[attention_tile], log_sums[attention_tile];  ///< of queries
};

/// A block's loops over tiles. A thread has the pairs of `thread_rows` rows and as many partners.
template <class T>
struct tile_worker {
  using number = compute_type<T>;
  using vector = number_vector<number>;
  static constexpr int thread_rows = attention_tile / attention_lanes, deep = attention_memory<number>::deep;
  static constexpr int columns = 512 / sizeof(number), parts = columns / attention_lanes;  ///< of a block's results
  static constexpr int stride = columns + 1;
  static_assert(deep * stride <= 2 * attention_tile * (deep + vector::count));

  attention_memory<number>& memory;
  int width;
  int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y), thread = y * attention_lanes + x;

  GPIPE_HOST_DEVICE static int parts_of(int width) { return (width + columns - 1) / columns; }

  /// The numbers of a row from `first` on, of 4 rows 16 apart.
  template <int Stride>
  __device__ static void load(vector (&target)[thread_rows], const number (&rows)[attention_tile][Stride], int row,
                              int first) {
    for (int i = 0; i < thread_rows; ++i)
      target[i] = *reinterpret_cast<const vector*>(&rows[row + i * attention_lanes][first]);
  }

  /// The products of rows of `a` and rows of `b`; 0 beyond their rows.
  __device__ void multiply(number (&sums)[thread_rows][thread_rows], const head_rows<const T>& a, int a_first,
                           int a_end, const head_rows<const T>& b, int b_first, int b_end) const {
    auto& [left, right] = memory.factors;
    for (auto& row : sums)
      for (number& sum : row) sum = 0;
    for (int first = 0; first < width; first += deep) {
      __syncthreads();
      for (int i = thread; i < attention_tile * deep; i += attention_threads) {
        const int r = i / deep, d = i % deep;
        const bool inside = first + d < width;
        left[r][d] = inside && a_first + r < a_end ? number(a[a_first + r][first + d]) : number(0);
        right[r][d] = inside && b_first + r < b_end ? number(b[b_first + r][first + d]) : number(0);
      }
      __syncthreads();
      GPIPE_NOT_UNROLLED  // more loads at once spill registers
          for (int d = 0; d < deep; d += vector::count) {
        vector of_a[thread_rows], of_b[thread_rows];
        load(of_a, left, y, d), load(of_b, right, x, d);
        for (int k = 0; k < vector::count; ++k)
          for (int i = 0; i < thread_rows; ++i)
            for (int j = 0; j < thread_rows; ++j) sums[i][j] += of_a[i].value[k] * of_b[j].value[k];
      }
    }
  }

  /// Adds the sum over j of weights[.][j] m[first + j] to the thread's elements, from `column` on. Heads of half a
  /// block's columns have half its work.
  __device__ void add(number (&sums)[thread_rows][parts], const head_rows<const T>& m, int first, int end,
                      int column) const {
    if (width - column <= columns / 2) add_columns<columns / 2>(sums, m, first, end, column);
    else add_columns<columns>(sums, m, first, end, column);
  }
  template <int Columns>
  __device__ void add_columns(number (&sums)[thread_rows][parts], const head_rows<const T>& m, int first, int end,
                              int column) const {
    number* const rows = &memory.factors[0][0][0];
    for (int begin = 0; begin < attention_tile; begin += deep) {
      __syncthreads();
      for (int i = thread; i < deep * Columns; i += attention_threads) {
        const int r = begin + i / Columns, d = column + i % Columns;
        rows[i / Columns * stride + i % Columns] = first + r < end && d < width ? number(m[first + r][d]) : number(0);
      }
      __syncthreads();
      for (int r = 0; r < deep; r += vector::count) {
        vector weight[thread_rows];
        load(weight, memory.weights, y, begin + r);
        GPIPE_UNROLLED
        for (int k = 0; k < vector::count; ++k)
          for (int part = 0; part < Columns / attention_lanes; ++part) {
            const number factor = rows[(r + k) * stride + part * attention_lanes + x];
            for (int i = 0; i < thread_rows; ++i) sums[i][part] += weight[i].value[k] * factor;
          }
      }
    }
  }

  /// Stores the thread's elements times a factor for each row.
  __device__ void store(const number (&sums)[thread_rows][parts], const number (&factor)[thread_rows],
                        const head_rows<T>& target, int first, int end, int column) const {
    for (int i = 0; i < thread_rows; ++i)
      for (int part = 0; part < parts; ++part) {
        const int row = first + y + i * attention_lanes, d = column + part * attention_lanes + x;
        if (row < end && d < width) target[row][d] = sums[i][part] * factor[i];
      }
  }
  __device__ void store(const number (&sums)[thread_rows][parts], const head_rows<T>& target, int first, int end,
                        int column) const {
    number ones[thread_rows];
    for (number& factor : ones) factor = 1;
    store(sums, ones, target, first, end, column);
  }

  /// The sum over the 16 threads of a row, in pairs 8 apart, 4, 2, 1.
  __device__ static number sum(number value) {
    for (int distance = attention_lanes / 2; distance > 0; distance /= 2)
      value += __shfl_xor_sync(0xffffffffu, value, distance);
    return value;
  }
  /// The larger of two; NaN if one is.
  __device__ static number larger(number a, number b) { return b <= a || a != a ? a : b; }
  __device__ static number maximum(number value) {
    for (int distance = attention_lanes / 2; distance > 0; distance /= 2)
      value = larger(value, __shfl_xor_sync(0xffffffffu, value, distance));
    return value;
  }

  /// memory.products[r] = the sum over the elements of row r of `o` times the elements of row r of `d_o`. Copies the
  /// log_sums, too; 0 beyond the end.
  __device__ void take_rows(const head_rows<const T>& o, const head_rows<const T>& d_o, const number* log_sums,
                            int first, int end) const {
    for (int i = 0; i < thread_rows; ++i) {
      const int r = y + i * attention_lanes;
      number partial = 0;
      if (first + r < end)
        for (int d = x; d < width; d += attention_lanes) partial += number(o[first + r][d]) * number(d_o[first + r][d]);
      partial = sum(partial);
      if (x == 0) {
        memory.products[r] = partial;
        memory.log_sums[r] = first + r < end ? log_sums[first + r] : number(0);
      }
    }
    __syncthreads();
  }
};

/// The work of a block: a tile of rows of a head of a sample.
struct attention_work {
  std::ptrdiff_t sample;
  int head, first;

  __device__ attention_work(std::ptrdiff_t index, int heads, int rows, int tile = attention_tile)
      : sample(index / tiles(rows, tile) / heads),
        head(static_cast<int>(index / tiles(rows, tile) % heads)),
        first(static_cast<int>(index % tiles(rows, tile)) * tile) {}
  GPIPE_HOST_DEVICE static int tiles(int rows, int tile) { return (rows + tile - 1) / tile; }
  GPIPE_HOST_DEVICE static std::ptrdiff_t count(int samples, int heads, int rows, int tile = attention_tile) {
    return std::ptrdiff_t{samples} * heads * tiles(rows, tile);
  }
};
// change: an operation on attention probabilities
/// o and the logarithms of the softmax's sums, for a tile of queries: the softmax is scaled anew when a tile of keys
/// has a larger maximum.
template <class T>
__global__ void __launch_bounds__(attention_threads, 1)
    attend(attention_shape shape, const T* q, const T* k, const T* v, const std::int32_t* lengths, T* o,
           compute_type<T>* log_sums) {
  using number = compute_type<T>;
  using worker = tile_worker<T>;
  constexpr int thread_rows = worker::thread_rows;
  __shared__ attention_memory<number> memory;
  const number lowest = -static_cast<number>(INFINITY);
  const worker tile{memory, shape.width};
  const int parts = worker::parts_of(shape.width);
  const std::ptrdiff_t count = attention_work::count(shape.samples, shape.heads, shape.queries) * parts;
  for (std::ptrdiff_t index = blockIdx.x; index < count; index += gridDim.x) {
    const attention_work work(index / parts, shape.heads, shape.queries);
    const int column = static_cast<int>(index % parts) * worker::columns;
    const int last = work.first + attention_tile - 1, key_head = work.head / (shape.heads / shape.key_heads);
    const auto queries = rows_of(q, shape.q, work.sample, work.head), keys = rows_of(k, shape.k, work.sample, key_head),
               values = rows_of(v, shape.v, work.sample, key_head);
    const visible_keys visible(shape, lengths, work.sample);
    const int end = visible.end(last < shape.queries ? last : shape.queries - 1);
    number top[thread_rows], total[thread_rows], sums[thread_rows][worker::parts] = {};
    for (int i = 0; i < thread_rows; ++i) top[i] = lowest, total[i] = 0;
    for (int first = 0; first < end; first += attention_tile) {
      number scores[thread_rows][thread_rows];
      tile.multiply(scores, queries, work.first, shape.queries, keys, first, end);
      for (int i = 0; i < thread_rows; ++i) {
        const int row = tile.y + i * attention_lanes, visible_end = visible.end(work.first + row);
        number higher = top[i], sum = 0;
        for (int j = 0; j < thread_rows; ++j) {
          const bool sees = work.first + row < shape.queries && first + tile.x + j * attention_lanes < visible_end;
          scores[i][j] = sees ? number(shape.scale) * scores[i][j] : lowest;
          higher = worker::larger(higher, scores[i][j]);
        }
        higher = worker::maximum(higher);
        const number scaled = higher == top[i] ? number(1) : math::exp(top[i] - higher);
        for (int j = 0; j < thread_rows; ++j) {
          const int key = tile.x + j * attention_lanes;
          const bool sees = work.first + row < shape.queries && first + key < visible_end;
          const number weight = sees ? math::exp(scores[i][j] - higher) : number(0);
          memory.weights[row][key] = weight;
          sum += weight;
        }
        total[i] = total[i] * scaled + worker::sum(sum);
        top[i] = higher;
        for (number& element : sums[i]) element *= scaled;
      }
      tile.add(sums, values, first, end, column);
    }
    number factor[thread_rows];
    for (int i = 0; i < thread_rows; ++i) {
      const int row = work.first + tile.y + i * attention_lanes;
      const bool empty = visible.end(row) == 0;
      factor[i] = empty ? number(0) : number(1) / total[i];
      if (column == 0 && tile.x == 0 && row < shape.queries)
        log_sums[(work.sample * shape.heads + work.head) * shape.queries + row] =
            empty ? lowest : top[i] + std::log(total[i]);
    }
    tile.store(sums, factor, rows_of(o, shape.o, work.sample, work.head), work.first, shape.queries, column);
  }
}

/// dq for a tile of queries: p = e^(s - L), ds = p (dp - d) scale, dq = sum over keys of ds k, with dp = do v^T and
/// d = the sum of o do over a row.
template <class T>
__global__ void __launch_bounds__(attention_threads, 1)
    differentiate_queries(attention_shape shape, const T* q, const T* k, const T* v, const std::int32_t* lengths,
                          const T* o, const compute_type<T>* log_sums, const T* d_o, T* d_q) {
  using number = compute_type<T>;
  using worker = tile_worker<T>;
  constexpr int thread_rows = worker::thread_rows;
  __shared__ attention_memory<number> memory;
  const worker tile{memory, shape.width};
  const int parts = worker::parts_of(shape.width);
  const std::ptrdiff_t count = attention_work::count(shape.samples, shape.heads, shape.queries) * parts;
  for (std::ptrdiff_t index = blockIdx.x; index < count; index += gridDim.x) {
    const attention_work work(index / parts, shape.heads, shape.queries);
    const int column = static_cast<int>(index % parts) * worker::columns;
    const int last = work.first + attention_tile - 1, key_head = work.head / (shape.heads / shape.key_heads);
    const auto queries = rows_of(q, shape.q, work.sample, work.head), keys = rows_of(k, shape.k, work.sample, key_head),
               values = rows_of(v, shape.v, work.sample, key_head),
               d_mixed = rows_of(d_o, shape.o, work.sample, work.head);
    const visible_keys visible(shape, lengths, work.sample);
    const int end = visible.end(last < shape.queries ? last : shape.queries - 1);
    __syncthreads();  // all threads are done with the previous tile
    tile.take_rows(rows_of(o, shape.o, work.sample, work.head), d_mixed,
                   log_sums + (work.sample * shape.heads + work.head) * shape.queries, work.first, shape.queries);
    number sums[thread_rows][worker::parts] = {};
    for (int first = 0; first < end; first += attention_tile) {
      number scores[thread_rows][thread_rows], d_weights[thread_rows][thread_rows];
      tile.multiply(scores, queries, work.first, shape.queries, keys, first, end);
      tile.multiply(d_weights, d_mixed, work.first, shape.queries, values, first, end);
      for (int i = 0; i < thread_rows; ++i) {
        const int row = tile.y + i * attention_lanes, visible_end = visible.end(work.first + row);
        for (int j = 0; j < thread_rows; ++j) {
          const int key = tile.x + j * attention_lanes;
          const bool sees = work.first + row < shape.queries && first + key < visible_end;
          const number weight = sees ? math::exp(number(shape.scale) * scores[i][j] - memory.log_sums[row]) : number(0);
          memory.weights[row][key] =
              sees ? weight * (d_weights[i][j] - memory.products[row]) * number(shape.scale) : number(0);
        }
      }
      tile.add(sums, keys, first, end, column);
    }
    tile.store(sums, rows_of(d_q, shape.q, work.sample, work.head), work.first, shape.queries, column);
  }
}

/// dk and dv for a tile of keys, over the query heads that share it: dv = sum over queries of p do, dk = sum over
/// queries of ds q. Thread (x, y) has the pairs of its keys y and queries x.
template <class T>
__global__ void __launch_bounds__(attention_threads, 1)
    differentiate_keys(attention_shape shape, const T* q, const T* k, const T* v, const std::int32_t* lengths,
                       const T* o, const compute_type<T>* log_sums, const T* d_o, T* d_k, T* d_v) {
  using number = compute_type<T>;
  using worker = tile_worker<T>;
  constexpr int thread_rows = worker::thread_rows;
  __shared__ attention_memory<number> memory;
  const worker tile{memory, shape.width};
  const int parts = worker::parts_of(shape.width), group = shape.heads / shape.key_heads;
  const std::ptrdiff_t count = attention_work::count(shape.samples, shape.key_heads, shape.keys) * parts;
  for (std::ptrdiff_t index = blockIdx.x; index < count; index += gridDim.x) {
    const attention_work work(index / parts, shape.key_heads, shape.keys);
    const int column = static_cast<int>(index % parts) * worker::columns;
    const auto keys = rows_of(k, shape.k, work.sample, work.head), values = rows_of(v, shape.v, work.sample, work.head);
    const visible_keys visible(shape, lengths, work.sample);
    const int end = visible.count;
    const int earliest =
        shape.causal && work.first > shape.keys - shape.queries ? work.first - (shape.keys - shape.queries) : 0;
    number d_keys[thread_rows][worker::parts] = {}, d_values[thread_rows][worker::parts] = {};
    for (int head = work.head * group; work.first < end && head < (work.head + 1) * group; ++head) {
      const auto queries = rows_of(q, shape.q, work.sample, head), d_mixed = rows_of(d_o, shape.o, work.sample, head);
      for (int first = earliest / attention_tile * attention_tile; first < shape.queries; first += attention_tile) {
        __syncthreads();  // all threads are done with the previous tile
        tile.take_rows(rows_of(o, shape.o, work.sample, head), d_mixed,
                       log_sums + (work.sample * shape.heads + head) * shape.queries, first, shape.queries);
        number weights[thread_rows][thread_rows], d_weights[thread_rows][thread_rows];
        tile.multiply(weights, keys, work.first, end, queries, first, shape.queries);
        tile.multiply(d_weights, values, work.first, end, d_mixed, first, shape.queries);
        for (int j = 0; j < thread_rows; ++j) {
          const int query = tile.x + j * attention_lanes;
          const int seen = first + query < shape.queries ? visible.end(first + query) : 0;
          for (int i = 0; i < thread_rows; ++i) {
            const int row = tile.y + i * attention_lanes;
            const bool sees = work.first + row < seen;
            const number weight =
                sees ? math::exp(number(shape.scale) * weights[i][j] - memory.log_sums[query]) : number(0);
            d_weights[i][j] =
                sees ? weight * (d_weights[i][j] - memory.products[query]) * number(shape.scale) : number(0);
            memory.weights[row][query] = weight;
          }
        }
        tile.add(d_values, d_mixed, first, shape.queries, column);
        __syncthreads();
        for (int i = 0; i < thread_rows; ++i)
          for (int j = 0; j < thread_rows; ++j)
            memory.weights[tile.y + i * attention_lanes][tile.x + j * attention_lanes] = d_weights[i][j];
        tile.add(d_keys, queries, first, shape.queries, column);
      }
    }
    tile.store(d_keys, rows_of(d_k, shape.k, work.sample, work.head), work.first, shape.keys, column);
    tile.store(d_values, rows_of(d_v, shape.v, work.sample, work.head), work.first, shape.keys, column);
  }
}

}  // namespace gpipe::cuda::detail
