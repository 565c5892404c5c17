#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include <gpipe/core/config.hpp>
#include <gpipe/core/tensors/dtype.hpp>
#include <gpipe/cuda/kernels/attention.hpp>
#include <gpipe/cuda/kernels/mma.hpp>
#include <gpipe/cuda/stream/gpu.hpp>
#include <gpipe/layer/contract/attention_shape.hpp>

namespace gpipe::cuda::detail {

// Attention of bf16 on tensor cores. A block has 64 or 128 queries, or 64 keys, and each of its four warps one or two
// groups of 16 of them: their rows are the left operands, and their results are sums in registers. Their partners,
// which are keys and values, or queries and gradients, are copied tile by tile into one of two stages in shared memory,
// while the block works on the other:
//
//     attend                  s = q k^T, softmax as in attention.hpp, o += p v
//     differentiate_queries   s, dp = do v^T, dq += ds k
//     differentiate_keys      s^T = k q^T, dp^T = v do^T, dv += p^T do, dk += ds^T q
//
// p and ds are rounded to bf16 as factors. Rows have Width columns in shared memory, 64, 128 or 256, with zeros beyond
// the head's width; products skip columns beyond the next multiple of 16. A block of heads wider than 128 has the
// results of 128 columns, and computes the weights for them.
//
// There are no atomics, and sums have a fixed order: partners ascend, and a tile's first row is a multiple of its
// number of rows. So a result's bits depend on its row and its partners alone: masked pairs add zeros.

inline constexpr int tensor_tile = attention_tile, tensor_threads = 128;

/// The shared memory of a block. `Kept`: the left operands stay in registers, and only pass through the stages. A warp
/// has `Groups` groups of 16 rows and loads each right operand once for all of them: loads of shared memory take as
/// long as products.
template <int Width, bool Kept, int Groups = 1>
struct tensor_tiles {
  static_assert(Groups == 1 || (Groups == 2 && Kept));
  static constexpr int columns = Width < 128 ? Width : 128, parts = Width / columns;  ///< of a block's results
  static constexpr int rows = Width <= 128 ? tensor_tile : 32;                        ///< of a tile of partners
  static constexpr int groups = Groups, block_rows = Groups * tensor_tile;            ///< of a warp, of a block
  static constexpr bool kept = Kept;
  using tile = swizzled_rows<Width>;

  unsigned first;  ///< shared address
  int lefts;       ///< tiles of left operands, 1 or 2

  static constexpr int bytes(int lefts) { return 2 * Width * (4 * rows + (Kept ? 0 : lefts * tensor_tile)); }
  /// Two tiles of two groups fill both stages, so that the partners are loaded after them.
  __device__ tile left(int i) const {
    if constexpr (Groups == 2) return partner(1 - i, 0);
    else return Kept ? partner(1, i) : tile{first + i * 2 * Width * tensor_tile};
  }
  __device__ tile partner(int stage, int i) const {
    return {first + (Kept ? 0 : lefts * 2 * Width * tensor_tile) + (2 * stage + i) * 2 * Width * rows};
  }
};

/// A warp's groups of 16 rows as left operands.
template <int Width, bool Kept, int Groups = 1>
struct left_rows {
  static constexpr int steps = Width / 16;
  static constexpr bool kept = Kept;
  left_fragment held[Groups][Kept ? steps : 1];
  swizzled_rows<Width> rows;
  int row;

  __device__ left_rows(const swizzled_rows<Width>& source, int first, int used) : rows(source), row(first) {
    if constexpr (Kept) {
      GPIPE_UNROLLED
      for (int step = 0; step < steps; ++step) {
        if (step >= used) continue;
        GPIPE_UNROLLED
        for (int g = 0; g < Groups; ++g) held[g][step] = rows.left(row + 16 * g, 16 * step);
      }
    }
  }
  __device__ left_fragment at(int g, int step) const {
    if constexpr (Kept) return held[g][step];
    else return rows.left(row, 16 * step);
  }
};

/// A thread's place, and the rows that it copies and stores.
struct tensor_thread {
  int warp = static_cast<int>(threadIdx.x) / warp_size, lane = lane_of_warp();
  int row = lane / 4, column = 2 * (lane % 4);  ///< of its first sum in a fragment
  int width, steps;                             ///< of a head: columns, and 16 columns
  bool aligned;                                 ///< rows are aligned to 16 bytes

  __device__ tensor_thread(int width_of_head, bool rows_aligned)
      : width(width_of_head), steps((width_of_head + 15) / 16), aligned(rows_aligned) {}

  /// Columns [8 c, 8 c + 8) of a row.
  __device__ void eight(const bf16* row_at, int c, unsigned (&word)[4]) const {
    if (aligned) {
      const uint4 loaded = *reinterpret_cast<const uint4*>(row_at + 8 * c);
      word[0] = loaded.x, word[1] = loaded.y, word[2] = loaded.z, word[3] = loaded.w;
      return;
    }
    for (int i = 0; i < 4; ++i) {
      const int d = 8 * c + 2 * i;
      word[i] = d < width ? row_at[d].bits : 0u;
      if (d + 1 < width) word[i] |= unsigned{row_at[d + 1].bits} << 16;
    }
  }

  /// Begins to copy rows [first, first + rows); rows from `end` on are zeros.
  template <int Width>
  __device__ void load(const swizzled_rows<Width>& target, const head_rows<const bf16>& source, int first, int rows,
                       int end) const {
    constexpr int groups = Width / 8, at_once = tensor_threads / groups;  // rows
    const int c = static_cast<int>(threadIdx.x) % groups;
    if (c >= 2 * steps) return;
    const int begin = static_cast<int>(threadIdx.x) / groups, inside = 8 * c < width ? end - first : 0;
    const bf16* next = source[first + begin] + 8 * c;
    if (aligned && at_once % 8 == 0 && inside >= rows) {  // the place in a row is the same for all of the thread's rows
      unsigned address = target.at(begin, c);
      GPIPE_UNROLLED
      for (int r = 0; r < rows; r += at_once, next += at_once * source.stride, address += at_once * 2 * Width)
        begin_copy(address, next, 16);
      return;
    }
    GPIPE_NOT_UNROLLED
    for (int r = begin; r < rows; r += at_once, next += at_once * source.stride) {
      if (aligned) {
        begin_copy(target.at(r, c), r < inside ? next : source.first, r < inside ? 16 : 0);
      } else {
        unsigned word[4] = {};
        if (r < inside) eight(next - 8 * c, c, word);
        store_words(target.at(r, c), word);
      }
    }
  }

  /// sums[r] = the sum over the columns of o and do, of `Rows` rows. Neighbouring threads share a row.
  template <int Rows>
  __device__ void multiply_rows(const head_rows<const bf16>& o, const head_rows<const bf16>& d_o, int first, int end,
                                float* sums) const {
    constexpr int sharing = tensor_threads / Rows;
    const int r = static_cast<int>(threadIdx.x) / sharing, part = static_cast<int>(threadIdx.x) % sharing;
    float sum = 0;
    if (first + r < end)
      for (int c = part; 8 * c < width; c += sharing) {
        unsigned x[4], y[4];
        eight(o[first + r], c, x), eight(d_o[first + r], c, y);
        GPIPE_UNROLLED
        for (int i = 0; i < 4; ++i) {
          sum += __uint_as_float(x[i] << 16) * __uint_as_float(y[i] << 16);
          sum += __uint_as_float(x[i] & 0xffff0000u) * __uint_as_float(y[i] & 0xffff0000u);
        }
      }
    GPIPE_UNROLLED
    for (int distance = 1; distance < sharing; distance *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
    if (part == 0) sums[r] = sum;
  }

  /// Stores the warp's sums of 16 rows, beginning at column `first` of the head.
  template <int Count>
  __device__ void store(const sum_fragment (&sums)[Count], const float (&factor)[2], const head_rows<bf16>& target,
                        int first_row, int end, int first) const {
    GPIPE_UNROLLED
    for (int e = 0; e < 2 * Count; ++e) {
      const int n = e / 2, half = e % 2;
      const int r = first_row + row + 8 * half, d = first + 8 * n + column;
      if (r >= end || d >= width) continue;
      const unsigned word = packed(sums[n].value[2 * half] * factor[half], sums[n].value[2 * half + 1] * factor[half]);
      bf16* const element = target[r] + d;
      if (aligned) {
        *reinterpret_cast<unsigned*>(element) = word;
      } else {
        element[0].bits = static_cast<std::uint16_t>(word);
        if (d + 1 < width) element[1].bits = static_cast<std::uint16_t>(word >> 16);
      }
    }
  }
};

/// 2^x, to 2 units in the last place; 2^0 is 1 and 2^-infinity 0.
__device__ inline float power_of_two(float x) {
  float power = 0;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}
inline constexpr float log2_of_e = 1.44269504F, log_of_2 = 0.693147181F;

/// Adds the products of each group of 16 left rows and the rows [first, first + 8 Count) of a tile.
template <int Width, class Left, int Groups, int Count>
__device__ inline void multiply_rows(sum_fragment (&sums)[Groups][Count], const Left& left,
                                     const swizzled_rows<Width>& right, int first, int steps) {
  constexpr bool Kept = Left::kept;
  const auto add = [&](int step) {
    left_fragment rows[Groups];
    GPIPE_UNROLLED
    for (int g = 0; g < Groups; ++g) rows[g] = left.at(g, step);
    GPIPE_UNROLLED
    for (int n = 0; n < Count; n += 2) {
      right_fragment two[2];
      right.right(two, first + 8 * n, 16 * step);
      GPIPE_UNROLLED
      for (int g = 0; g < Groups; ++g)
        multiply_add(sums[g][n], rows[g], two[0]), multiply_add(sums[g][n + 1], rows[g], two[1]);
    }
  };
  if constexpr (Kept) {  // constant indices keep the fragments in registers
    GPIPE_UNROLLED
    for (int step = 0; step < Width / 16; ++step)
      if (step < steps) add(step);
  } else {
    for (int step = 0; step < steps; ++step) add(step);
  }
}
/// Adds 16 columns of each group's weights times rows [first, first + 16) of a tile, beginning at a column.
template <int Width, int Groups, int Count>
__device__ inline void multiply_columns(sum_fragment (&sums)[Groups][Count], const left_fragment (&weights)[Groups],
                                        const swizzled_rows<Width>& right, int first, int column, int steps) {
  GPIPE_UNROLLED
  for (int n = 0; n < Count; n += 2) {
    if (column / 16 + n / 2 >= steps) continue;
    right_fragment two[2];
    right.right_transposed(two, first, column + 8 * n);
    GPIPE_UNROLLED
    for (int g = 0; g < Groups; ++g)
      multiply_add(sums[g][n], weights[g], two[0]), multiply_add(sums[g][n + 1], weights[g], two[1]);
  }
}
/// Columns 16 j to 16 j + 15 of each group's sums as left operands.
template <int Groups, int Count>
__device__ inline void round_columns(left_fragment (&rounded)[Groups], const sum_fragment (&sums)[Groups][Count],
                                     int j) {
  GPIPE_UNROLLED
  for (int g = 0; g < Groups; ++g) rounded[g] = as_left(sums[g][2 * j], sums[g][2 * j + 1]);
}

template <int Width>
using tiles_of_queries = tensor_tiles<Width, Width <= 128, Width <= 64 ? 2 : 1>;

// change: an operation on attention probabilities
/// o and the logarithms of the softmax's sums, for a tile of queries.
template <int Width>
__global__ void __launch_bounds__(tensor_threads, 2)
    attend_bf16(attention_shape shape, const bf16* q, const bf16* k, const bf16* v, const std::int32_t* lengths,
                bf16* o, float* log_sums, bool aligned) {
#if GPIPE_TENSOR_CORES
  using tiles = tiles_of_queries<Width>;
  constexpr int keys_of_tile = tiles::rows, pairs = keys_of_tile / 8, columns = tiles::columns, groups = tiles::groups;
  const tiles memory{shared_address(dynamic_shared()), 1};
  const tensor_thread thread(shape.width, aligned);
  const float lowest = -static_cast<float>(INFINITY), factor = static_cast<float>(shape.scale) * log2_of_e;
  const std::ptrdiff_t count =
      attention_work::count(shape.samples, shape.heads, shape.queries, tiles::block_rows) * tiles::parts;
  for (std::ptrdiff_t index = blockIdx.x; index < count; index += gridDim.x) {
    const attention_work work(index / tiles::parts, shape.heads, shape.queries, tiles::block_rows);
    const int part = static_cast<int>(index % tiles::parts), key_head = work.head / (shape.heads / shape.key_heads);
    const auto queries = rows_of(q, shape.q, work.sample, work.head), keys = rows_of(k, shape.k, work.sample, key_head),
               values = rows_of(v, shape.v, work.sample, key_head);
    const visible_keys visible(shape, lengths, work.sample);
    const int last = work.first + tiles::block_rows - 1,
              end = visible.end(last < shape.queries ? last : shape.queries - 1);
    const int warp_row = 16 * groups * thread.warp, row = work.first + warp_row + thread.row,
              whole_end = visible.end(work.first);
    int visible_end[groups][2];
    GPIPE_UNROLLED
    for (int e = 0; e < 2 * groups; ++e) visible_end[e / 2][e % 2] = visible.end(row + 8 * e);
    const auto load = [&](int stage, int first) {
      thread.load(memory.partner(stage, 0), keys, first, keys_of_tile, end);
      thread.load(memory.partner(stage, 1), values, first, keys_of_tile, end);
    };
    __syncthreads();  // all threads are done with the previous tile
    thread.load(memory.left(0), queries, work.first, tiles::block_rows, shape.queries);
    commit_copies();
    if (end > 0) load(0, 0);
    commit_copies();
    await_copies<1>();
    __syncthreads();
    const left_rows<Width, tiles::kept, groups> query_rows(memory.left(0), warp_row, thread.steps);
    sum_fragment sums[groups][columns / 8] = {};
    float top[groups][2], total[groups][2] = {};
    GPIPE_UNROLLED
    for (int e = 0; e < 2 * groups; ++e) top[e / 2][e % 2] = lowest;
    for (int first = 0, stage = 0; first < end; first += keys_of_tile, stage ^= 1) {
      __syncthreads();
      if (first + keys_of_tile < end) load(stage ^ 1, first + keys_of_tile);
      commit_copies();
      await_copies<1>();
      __syncthreads();
      sum_fragment weights[groups][pairs] = {};
      multiply_rows(weights, query_rows, memory.partner(stage, 0), 0, thread.steps);
      const bool whole = first + keys_of_tile <= whole_end;  // each query sees each key
      if (!whole) {
        GPIPE_UNROLLED
        for (int e = 0; e < 4 * pairs * groups; ++e) {
          const int g = e / (4 * pairs), n = e / 4 % pairs, i = e % 4;
          if (first + 8 * n + thread.column + i % 2 >= visible_end[g][i / 2]) weights[g][n].value[i] = lowest;
        }
      }
      GPIPE_UNROLLED
      for (int g = 0; g < groups; ++g) {
        float highest[2] = {lowest, lowest}, sum[2] = {0, 0}, scaled[2], offset[2];
        GPIPE_UNROLLED
        for (int e = 0; e < 4 * pairs; ++e)
          highest[e % 4 / 2] = fmaxf(highest[e % 4 / 2], weights[g][e / 4].value[e % 4]);
        GPIPE_UNROLLED
        for (int half = 0; half < 2; ++half) {
          for (int distance = 1; distance < 4; distance *= 2)
            highest[half] = fmaxf(highest[half], __shfl_xor_sync(0xffffffffu, highest[half], distance));
          const float old = top[g][half];
          top[g][half] = fmaxf(old, highest[half] * factor);
          offset[half] = top[g][half] == lowest ? 0 : top[g][half];  // 2^lowest is 0
          scaled[half] = power_of_two(old - offset[half]);
        }
        GPIPE_UNROLLED
        for (int e = 0; e < 4 * pairs; ++e) {
          float& weight = weights[g][e / 4].value[e % 4];
          weight = power_of_two(weight * factor - offset[e % 4 / 2]);
          sum[e % 4 / 2] += weight;
        }
        GPIPE_UNROLLED
        for (int half = 0; half < 2; ++half) total[g][half] = total[g][half] * scaled[half] + sum[half];
        GPIPE_UNROLLED
        for (int e = 0; e < columns / 2; ++e) sums[g][e / 4].value[e % 4] *= scaled[e % 4 / 2];
      }
      GPIPE_UNROLLED
      for (int j = 0; j < pairs / 2; ++j) {
        left_fragment rounded[groups];
        round_columns(rounded, weights, j);
        multiply_columns(sums, rounded, memory.partner(stage, 1), 16 * j, part * columns, thread.steps);
      }
    }
    GPIPE_UNROLLED
    for (int g = 0; g < groups; ++g) {
      float inverse[2];
      GPIPE_UNROLLED
      for (int half = 0; half < 2; ++half) {
        float sum = total[g][half];
        for (int distance = 1; distance < 4; distance *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
        const bool sees = visible_end[g][half] > 0;
        inverse[half] = sees ? 1 / sum : 0;
        const int r = row + 16 * g + 8 * half;
        if (part == 0 && thread.column == 0 && r < shape.queries)
          log_sums[(work.sample * shape.heads + work.head) * shape.queries + r] =
              sees ? top[g][half] * log_of_2 + logf(sum) : lowest;
      }
      thread.store(sums[g], inverse, rows_of(o, shape.o, work.sample, work.head), work.first + warp_row + 16 * g,
                   shape.queries, part * columns);
    }
  }
#else
  __trap();
#endif
}

/// dq for a tile of queries. A query that sees no key, or does not exist, has L = infinity, so that p = 0.
template <int Width>
__global__ void __launch_bounds__(tensor_threads, 2)
    differentiate_queries_bf16(attention_shape shape, const bf16* q, const bf16* k, const bf16* v,
                               const std::int32_t* lengths, const bf16* o, const float* log_sums, const bf16* d_o,
                               bf16* d_q, bool aligned) {
#if GPIPE_TENSOR_CORES
  using tiles = tiles_of_queries<Width>;
  constexpr int keys_of_tile = tiles::rows, columns = tiles::columns, groups = tiles::groups;
  __shared__ float products[tiles::block_rows];
  const tiles memory{shared_address(dynamic_shared()), 2};
  const tensor_thread thread(shape.width, aligned);
  const float factor = static_cast<float>(shape.scale) * log2_of_e, scale = static_cast<float>(shape.scale);
  const std::ptrdiff_t count =
      attention_work::count(shape.samples, shape.heads, shape.queries, tiles::block_rows) * tiles::parts;
  for (std::ptrdiff_t index = blockIdx.x; index < count; index += gridDim.x) {
    const attention_work work(index / tiles::parts, shape.heads, shape.queries, tiles::block_rows);
    const int part = static_cast<int>(index % tiles::parts), key_head = work.head / (shape.heads / shape.key_heads);
    const auto queries = rows_of(q, shape.q, work.sample, work.head), keys = rows_of(k, shape.k, work.sample, key_head),
               values = rows_of(v, shape.v, work.sample, key_head), mixed = rows_of(o, shape.o, work.sample, work.head),
               d_mixed = rows_of(d_o, shape.o, work.sample, work.head);
    const visible_keys visible(shape, lengths, work.sample);
    const int last = work.first + tiles::block_rows - 1,
              end = visible.end(last < shape.queries ? last : shape.queries - 1);
    const int warp_row = 16 * groups * thread.warp, row = work.first + warp_row + thread.row,
              whole_end = visible.end(work.first);
    int visible_end[groups][2];
    GPIPE_UNROLLED
    for (int e = 0; e < 2 * groups; ++e) visible_end[e / 2][e % 2] = visible.end(row + 8 * e);
    const auto load = [&](int stage, int first) {
      thread.load(memory.partner(stage, 0), keys, first, keys_of_tile, end);
      thread.load(memory.partner(stage, 1), values, first, keys_of_tile, end);
    };
    __syncthreads();  // all threads are done with the previous tile
    thread.load(memory.left(0), queries, work.first, tiles::block_rows, shape.queries);
    thread.load(memory.left(1), d_mixed, work.first, tiles::block_rows, shape.queries);
    commit_copies();
    if (groups == 1 && end > 0) load(0, 0);
    commit_copies();
    for (int r = 0; r < tiles::block_rows; r += tensor_tile)
      thread.template multiply_rows<tensor_tile>(mixed, d_mixed, work.first + r, shape.queries, products + r);
    await_copies<1>();
    __syncthreads();
    const left_rows<Width, tiles::kept, groups> query_rows(memory.left(0), warp_row, thread.steps),
        gradient_rows(memory.left(1), warp_row, thread.steps);
    if (groups == 2) {
      __syncthreads();
      if (end > 0) load(0, 0);
      commit_copies();
    }
    float row_product[groups][2], log_sum[groups][2];
    GPIPE_UNROLLED
    for (int e = 0; e < 2 * groups; ++e) {
      const int r = row + 8 * e, g = e / 2, half = e % 2;
      row_product[g][half] = products[r - work.first];
      log_sum[g][half] = static_cast<float>(INFINITY);
      if (r < shape.queries && visible_end[g][half] > 0)
        log_sum[g][half] = log2_of_e * log_sums[(work.sample * shape.heads + work.head) * shape.queries + r];
    }
    sum_fragment sums[groups][columns / 8] = {};
    for (int first = 0, stage = 0; first < end; first += keys_of_tile, stage ^= 1) {
      __syncthreads();
      if (first + keys_of_tile < end) load(stage ^ 1, first + keys_of_tile);
      commit_copies();
      await_copies<1>();
      __syncthreads();
      const bool whole = first + keys_of_tile <= whole_end;  // each query sees each key
      GPIPE_NOT_UNROLLED
      for (int j = 0; j < keys_of_tile; j += 16) {
        sum_fragment weights[groups][2] = {}, d_weights[groups][2] = {};
        multiply_rows(weights, query_rows, memory.partner(stage, 0), j, thread.steps);
        multiply_rows(d_weights, gradient_rows, memory.partner(stage, 1), j, thread.steps);
        GPIPE_UNROLLED
        for (int e = 0; e < 8 * groups; ++e) {
          const int g = e / 8, n = e / 4 % 2, i = e % 4;
          float& weight = weights[g][n].value[i];
          weight =
              power_of_two(weight * factor - log_sum[g][i / 2]) * (d_weights[g][n].value[i] - row_product[g][i / 2]);
        }
        if (!whole) {
          GPIPE_UNROLLED
          for (int e = 0; e < 8 * groups; ++e) {
            const int g = e / 8, n = e / 4 % 2, i = e % 4;
            if (first + j + 8 * n + thread.column + i % 2 >= visible_end[g][i / 2]) weights[g][n].value[i] = 0;
          }
        }
        left_fragment rounded[groups];
        round_columns(rounded, weights, 0);
        multiply_columns(sums, rounded, memory.partner(stage, 0), j, part * columns, thread.steps);
      }
    }
    GPIPE_UNROLLED
    for (int g = 0; g < groups; ++g)
      thread.store(sums[g], {scale, scale}, rows_of(d_q, shape.q, work.sample, work.head),
                   work.first + warp_row + 16 * g, shape.queries, part * columns);
  }
#else
  __trap();
#endif
}

template <int Width>
using tiles_of_keys = tensor_tiles<Width, Width <= 64>;

/// dk and dv for a tile of keys, over the query heads that share it.
template <int Width>
__global__ void __launch_bounds__(tensor_threads, 2)
    differentiate_keys_bf16(attention_shape shape, const bf16* q, const bf16* k, const bf16* v,
                            const std::int32_t* lengths, const bf16* o, const float* log_sums, const bf16* d_o,
                            bf16* d_k, bf16* d_v, bool aligned) {
#if GPIPE_TENSOR_CORES
  using tiles = tiles_of_keys<Width>;
  constexpr int queries_of_tile = tiles::rows, columns = tiles::columns;
  __shared__ float products[queries_of_tile], log_sum[queries_of_tile];
  const tiles memory{shared_address(dynamic_shared()), 2};
  const tensor_thread thread(shape.width, aligned);
  const float factor = static_cast<float>(shape.scale) * log2_of_e, scale = static_cast<float>(shape.scale);
  const std::ptrdiff_t count = attention_work::count(shape.samples, shape.key_heads, shape.keys) * tiles::parts;
  const int group = shape.heads / shape.key_heads;
  for (std::ptrdiff_t index = blockIdx.x; index < count; index += gridDim.x) {
    const attention_work work(index / tiles::parts, shape.key_heads, shape.keys);
    const int part = static_cast<int>(index % tiles::parts);
    const visible_keys visible(shape, lengths, work.sample);
    const int end = visible.count, row = work.first + 16 * thread.warp + thread.row;
    // The tiles of a head's queries that see one of these keys.
    const int hidden =
        shape.causal && work.first > shape.keys - shape.queries ? work.first - (shape.keys - shape.queries) : 0;
    const int earliest = hidden / queries_of_tile * queries_of_tile;
    const int tiles_per_head =
        earliest < shape.queries ? (shape.queries - earliest + queries_of_tile - 1) / queries_of_tile : 0;
    const int tile_count = work.first < end ? group * tiles_per_head : 0;
    const auto head_of = [&](int tile) { return work.head * group + tile / tiles_per_head; };
    const auto first_of = [&](int tile) { return earliest + tile % tiles_per_head * queries_of_tile; };
    const auto load = [&](int tile) {
      const int first = first_of(tile), stage = tile % 2;
      thread.load(memory.partner(stage, 0), rows_of(q, shape.q, work.sample, head_of(tile)), first, queries_of_tile,
                  shape.queries);
      thread.load(memory.partner(stage, 1), rows_of(d_o, shape.o, work.sample, head_of(tile)), first, queries_of_tile,
                  shape.queries);
    };
    __syncthreads();  // all threads are done with the previous tile
    thread.load(memory.left(0), rows_of(k, shape.k, work.sample, work.head), work.first, tensor_tile, end);
    thread.load(memory.left(1), rows_of(v, shape.v, work.sample, work.head), work.first, tensor_tile, end);
    commit_copies();
    if (tile_count > 0) load(0);
    commit_copies();
    await_copies<1>();
    __syncthreads();
    const left_rows<Width, Width <= 64> key_rows(memory.left(0), 16 * thread.warp, thread.steps),
        value_rows(memory.left(1), 16 * thread.warp, thread.steps);
    sum_fragment d_keys[1][columns / 8] = {}, d_values[1][columns / 8] = {};
    for (int tile = 0; tile < tile_count; ++tile) {
      const int head = head_of(tile), first = first_of(tile), stage = tile % 2;
      __syncthreads();
      if (tile + 1 < tile_count) load(tile + 1);
      commit_copies();
      thread.template multiply_rows<queries_of_tile>(rows_of(o, shape.o, work.sample, head),
                                                     rows_of(d_o, shape.o, work.sample, head), first, shape.queries,
                                                     products);
      if (static_cast<int>(threadIdx.x) < queries_of_tile) {
        const int query = first + static_cast<int>(threadIdx.x);
        log_sum[threadIdx.x] = query < shape.queries && visible.end(query) > 0
                                   ? log2_of_e * log_sums[(work.sample * shape.heads + head) * shape.queries + query]
                                   : static_cast<float>(INFINITY);
      }
      await_copies<1>();
      __syncthreads();
      const bool whole =
          !shape.causal || work.first + tensor_tile <= first + visible.shift;  // each query sees each key
      GPIPE_NOT_UNROLLED
      for (int j = 0; j < queries_of_tile; j += 16) {
        sum_fragment weights[1][2] = {}, d_weights[1][2] = {};
        multiply_rows(weights, key_rows, memory.partner(stage, 0), j, thread.steps);
        multiply_rows(d_weights, value_rows, memory.partner(stage, 1), j, thread.steps);
        GPIPE_UNROLLED
        for (int e = 0; e < 4 * 2; ++e) {
          const int n = e / 4, i = e % 4;
          const int query = j + 8 * n + thread.column + i % 2;
          float &weight = weights[0][n].value[i], &d_weight = d_weights[0][n].value[i];
          weight = power_of_two(weight * factor - log_sum[query]);
          d_weight = weight * (d_weight - products[query]);
        }
        if (!whole) {
          GPIPE_UNROLLED
          for (int e = 0; e < 4 * 2; ++e) {
            const int n = e / 4, i = e % 4;
            if (row + 8 * (i / 2) >= first + j + 8 * n + thread.column + i % 2 + visible.shift)
              weights[0][n].value[i] = d_weights[0][n].value[i] = 0;
          }
        }
        left_fragment rounded[1];
        round_columns(rounded, weights, 0);
        multiply_columns(d_values, rounded, memory.partner(stage, 1), j, part * columns, thread.steps);
        round_columns(rounded, d_weights, 0);
        multiply_columns(d_keys, rounded, memory.partner(stage, 0), j, part * columns, thread.steps);
      }
    }
    // No query sees keys from `end` on.
    GPIPE_UNROLLED
    for (int e = 0; e < columns / 2; ++e) {
      const int n = e / 4, i = e % 4;
      if (row + 8 * (i / 2) >= end) d_keys[0][n].value[i] = d_values[0][n].value[i] = 0;
    }
    thread.store(d_keys[0], {scale, scale}, rows_of(d_k, shape.k, work.sample, work.head),
                 work.first + 16 * thread.warp, shape.keys, part * columns);
    thread.store(d_values[0], {1, 1}, rows_of(d_v, shape.v, work.sample, work.head), work.first + 16 * thread.warp,
                 shape.keys, part * columns);
  }
#else
  __trap();
#endif
}

/// The bytes of shared memory that a block of these kernels can have on a GPU; 0 if the program's code for it is for an
/// architecture before sm_80, without the instructions of tensor cores.
GPIPE_COLD inline int tensor_memory(int gpu) {
  cudaFuncAttributes found{};
  check(cudaFuncGetAttributes(&found, attend_bf16<64>), "cudaFuncGetAttributes");
  int bytes = 0;
  if (found.ptxVersion >= first_with_tensor_cores)
    check(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, gpu), "cudaDeviceGetAttribute");
  return bytes;
}

/// Whether all rows of all arrays are aligned to 16 bytes. The results' bits do not depend on it.
inline bool rows_are_aligned(const attention_shape& shape, std::initializer_list<const void*> arrays) {
  bool aligned = shape.width % 8 == 0;
  for (const auto& strides : {shape.q, shape.k, shape.v, shape.o})
    aligned = aligned && strides.sample % 8 == 0 && strides.head % 8 == 0 && strides.row % 8 == 0;
  for (const void* array : arrays) aligned = aligned && reinterpret_cast<std::uintptr_t>(array) % 16 == 0;
  return aligned;
}

}  // namespace gpipe::cuda::detail
