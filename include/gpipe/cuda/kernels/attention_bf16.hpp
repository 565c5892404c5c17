#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include <gpipe/core/config.hpp>
#include <gpipe/core/numbers/bf16.hpp>
#include <gpipe/cuda/kernels/attention.hpp>
#include <gpipe/cuda/kernels/mma.hpp>
#include <gpipe/cuda/stream/check.hpp>
#include <gpipe/layer/contract/attention_shape.hpp>

namespace gpipe::cuda::detail {

// Attention of bf16 on tensor cores. A block has 64 or 128 queries, or 64 keys, and each of its four warps one or two
// groups of 16 of them: their rows are the left operands, and their results are sums in registers. Their partners,
// which are keys and values, or queries and gradients, come tile by tile into one of two stages in shared memory, while
// the block works on the other one:
//
//     attend                  s = q k^T, softmax as in attention.hpp, o += p v
//     differentiate_queries   s, dp = do v^T, dq += ds k
//     differentiate_keys      s^T = k q^T, dp^T = v do^T, dv += p^T do, dk += ds^T q
//
// p and ds are rounded to bf16 where they are factors. Rows have Width columns in shared memory, 64, 128 or 256, zeros
// beyond the head's own; products leave out what is beyond the next multiple of 16. A block of heads wider than 128 has
// the results of 128 columns, and finds the weights for them.
//
// There are no atomics, and sums have a fixed order: partners ascend, and a tile's first row is a multiple of its
// number of rows. So a result's bits depend on its own row and its partners alone: pairs that a mask leaves out add
// zeros.

inline constexpr int tensor_tile = attention_tile, tensor_threads = 128;

/// The shared memory of a block. `Kept`: the left operands stay in registers, and only pass through the stages. A warp
/// has `Groups` groups of 16 rows, for which it loads each right operand once: loads of shared memory take as long as
/// products.
template <int Width, bool Kept, int Groups = 1>
struct tensor_tiles {
  static_assert(Groups == 1 || (Groups == 2 && Kept));
  static constexpr int columns = Width < 128 ? Width : 128, parts = Width / columns;  ///< of a block's results
  static constexpr int rows = Width <= 128 ? tensor_tile : 32;                        ///< of a tile of partners
  static constexpr int groups = Groups, own_rows = Groups * tensor_tile;              ///< of a warp, of a block
  static constexpr bool kept = Kept;
  using tile = swizzled_rows<Width>;

  unsigned first;  ///< shared address
  int lefts;       ///< tiles of left operands, 1 or 2

  static constexpr int bytes(int lefts) { return 2 * Width * (4 * rows + (Kept ? 0 : lefts * tensor_tile)); }
  /// Two tiles of two groups fill both stages, so that the partners come after them.
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
  swizzled_rows<Width> from;
  int row;

  __device__ left_rows(const swizzled_rows<Width>& all, int first, int used) : from(all), row(first) {
    if constexpr (Kept) {
      GPIPE_UNROLLED
      for (int step = 0; step < steps; ++step) {
        if (step >= used) continue;
        GPIPE_UNROLLED
        for (int g = 0; g < Groups; ++g) held[g][step] = from.left(row + 16 * g, 16 * step);
      }
    }
  }
  __device__ left_fragment at(int g, int step) const {
    if constexpr (Kept) return held[g][step];
    else return from.left(row, 16 * step);
  }
};

/// A thread's place, and the rows that it copies and stores.
struct tensor_thread {
  int warp = static_cast<int>(threadIdx.x) / warp_size, lane = lane_of_warp();
  int row = lane / 4, column = 2 * (lane % 4);  ///< of its first sum in a fragment
  int width, steps;                             ///< of a head: columns, and 16 columns
  bool aligned;                                 ///< rows begin at 16 bytes

  __device__ tensor_thread(int width_of_head, bool all_aligned)
      : width(width_of_head), steps((width_of_head + 15) / 16), aligned(all_aligned) {}

  /// Columns [8 c, 8 c + 8) of a row.
  __device__ void eight(const bf16* row_at, int c, unsigned (&word)[4]) const {
    if (aligned) {
      const uint4 all = *reinterpret_cast<const uint4*>(row_at + 8 * c);
      word[0] = all.x, word[1] = all.y, word[2] = all.z, word[3] = all.w;
      return;
    }
    for (int i = 0; i < 4; ++i) {
      const int d = 8 * c + 2 * i;
      word[i] = d < width ? row_at[d].bits : 0u;
      if (d + 1 < width) word[i] |= unsigned{row_at[d + 1].bits} << 16;
    }
  }

  /// Begins to copy rows [first, first + rows); those from `end` on are zeros.
  template <int Width>
  __device__ void load(const swizzled_rows<Width>& into, const head_rows<const bf16>& from, int first, int rows,
                       int end) const {
    constexpr int groups = Width / 8, at_once = tensor_threads / groups;  // rows
    const int c = static_cast<int>(threadIdx.x) % groups;
    if (c >= 2 * steps) return;
    const int begin = static_cast<int>(threadIdx.x) / groups, inside = 8 * c < width ? end - first : 0;
    const bf16* at = from[first + begin] + 8 * c;
    if (aligned && at_once % 8 == 0 && inside >= rows) {  // the place in a row is the same for all of the thread's rows
      unsigned place = into.at(begin, c);
      GPIPE_UNROLLED
      for (int r = 0; r < rows; r += at_once, at += at_once * from.stride, place += at_once * 2 * Width)
        begin_copy(place, at, 16);
      return;
    }
    GPIPE_NOT_UNROLLED
    for (int r = begin; r < rows; r += at_once, at += at_once * from.stride) {
      if (aligned) {
        begin_copy(into.at(r, c), r < inside ? at : from.first, r < inside ? 16 : 0);
      } else {
        unsigned word[4] = {};
        if (r < inside) eight(at - 8 * c, c, word);
        store_words(into.at(r, c), word);
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
    for (int apart = 1; apart < sharing; apart *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, apart);
    if (part == 0) sums[r] = sum;
  }

  /// Stores the warp's sums of 16 rows, from column `first` of the head on.
  template <int Count>
  __device__ void store(const sum_fragment (&sums)[Count], const float (&factor)[2], const head_rows<bf16>& into,
                        int first_row, int end, int first) const {
    GPIPE_UNROLLED
    for (int e = 0; e < 2 * Count; ++e) {
      const int n = e / 2, half = e % 2;
      const int r = first_row + row + 8 * half, d = first + 8 * n + column;
      if (r >= end || d >= width) continue;
      const unsigned word = packed(sums[n].at[2 * half] * factor[half], sums[n].at[2 * half + 1] * factor[half]);
      bf16* const at = into[r] + d;
      if (aligned) {
        *reinterpret_cast<unsigned*>(at) = word;
      } else {
        at[0].bits = static_cast<std::uint16_t>(word);
        if (d + 1 < width) at[1].bits = static_cast<std::uint16_t>(word >> 16);
      }
    }
  }
};

/// 2^x, to 2 units in the last place; 2^0 is 1 and 2^-infinity 0.
__device__ inline float power_of_two(float x) {
  float found = 0;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(found) : "f"(x));
  return found;
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
  if constexpr (Kept) {  // what is held has constant indices, so that it stays in registers
    GPIPE_UNROLLED
    for (int step = 0; step < Width / 16; ++step)
      if (step < steps) add(step);
  } else {
    for (int step = 0; step < steps; ++step) add(step);
  }
}
/// Adds 16 columns of each group's weights times rows [first, first + 16) of a tile, from a column on.
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
__device__ inline void round_columns(left_fragment (&into)[Groups], const sum_fragment (&sums)[Groups][Count], int j) {
  GPIPE_UNROLLED
  for (int g = 0; g < Groups; ++g) into[g] = as_left(sums[g][2 * j], sums[g][2 * j + 1]);
}

template <int Width>
using tiles_of_queries = tensor_tiles<Width, Width <= 128, Width <= 64 ? 2 : 1>;

/// o and the logarithms of the softmax's sums, for a tile of queries.
template <int Width>
__global__ void __launch_bounds__(tensor_threads, 2)
    attend_bf16(attention_shape s, const bf16* q, const bf16* k, const bf16* v, const std::int32_t* lengths, bf16* o,
                float* log_sums, bool aligned) {
#if GPIPE_TENSOR_CORES
  using tiles = tiles_of_queries<Width>;
  constexpr int keys_of_tile = tiles::rows, pairs = keys_of_tile / 8, columns = tiles::columns, groups = tiles::groups;
  const tiles memory{shared_address(dynamic_shared()), 1};
  const tensor_thread me(s.width, aligned);
  const float lowest = -static_cast<float>(INFINITY), factor = static_cast<float>(s.scale) * log2_of_e;
  const std::ptrdiff_t count = attention_work::count(s.samples, s.heads, s.queries, tiles::own_rows) * tiles::parts;
  for (std::ptrdiff_t index = blockIdx.x; index < count; index += gridDim.x) {
    const attention_work at(index / tiles::parts, s.heads, s.queries, tiles::own_rows);
    const int part = static_cast<int>(index % tiles::parts), key_head = at.head / (s.heads / s.key_heads);
    const auto queries = rows_of(q, s.q, at.sample, at.head), keys = rows_of(k, s.k, at.sample, key_head),
               values = rows_of(v, s.v, at.sample, key_head);
    const visible_keys visible(s, lengths, at.sample);
    const int last = at.first + tiles::own_rows - 1, end = visible.end(last < s.queries ? last : s.queries - 1);
    const int of_warp = 16 * groups * me.warp, row = at.first + of_warp + me.row, whole_end = visible.end(at.first);
    int own_end[groups][2];
    GPIPE_UNROLLED
    for (int e = 0; e < 2 * groups; ++e) own_end[e / 2][e % 2] = visible.end(row + 8 * e);
    const auto load = [&](int stage, int first) {
      me.load(memory.partner(stage, 0), keys, first, keys_of_tile, end);
      me.load(memory.partner(stage, 1), values, first, keys_of_tile, end);
    };
    __syncthreads();  // all threads are done with the tile before
    me.load(memory.left(0), queries, at.first, tiles::own_rows, s.queries);
    commit_copies();
    if (end > 0) load(0, 0);
    commit_copies();
    await_copies<1>();
    __syncthreads();
    const left_rows<Width, tiles::kept, groups> own(memory.left(0), of_warp, me.steps);
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
      multiply_rows(weights, own, memory.partner(stage, 0), 0, me.steps);
      const bool whole = first + keys_of_tile <= whole_end;  // each query sees each key
      if (!whole) {
        GPIPE_UNROLLED
        for (int e = 0; e < 4 * pairs * groups; ++e) {
          const int g = e / (4 * pairs), n = e / 4 % pairs, i = e % 4;
          if (first + 8 * n + me.column + i % 2 >= own_end[g][i / 2]) weights[g][n].at[i] = lowest;
        }
      }
      GPIPE_UNROLLED
      for (int g = 0; g < groups; ++g) {
        float highest[2] = {lowest, lowest}, sum[2] = {0, 0}, scaled[2], by[2];
        GPIPE_UNROLLED
        for (int e = 0; e < 4 * pairs; ++e) highest[e % 4 / 2] = fmaxf(highest[e % 4 / 2], weights[g][e / 4].at[e % 4]);
        GPIPE_UNROLLED
        for (int half = 0; half < 2; ++half) {
          for (int apart = 1; apart < 4; apart *= 2)
            highest[half] = fmaxf(highest[half], __shfl_xor_sync(0xffffffffu, highest[half], apart));
          const float old = top[g][half];
          top[g][half] = fmaxf(old, highest[half] * factor);
          by[half] = top[g][half] == lowest ? 0 : top[g][half];  // 2^lowest is 0
          scaled[half] = power_of_two(old - by[half]);
        }
        GPIPE_UNROLLED
        for (int e = 0; e < 4 * pairs; ++e) {
          float& weight = weights[g][e / 4].at[e % 4];
          weight = power_of_two(weight * factor - by[e % 4 / 2]);
          sum[e % 4 / 2] += weight;
        }
        GPIPE_UNROLLED
        for (int half = 0; half < 2; ++half) total[g][half] = total[g][half] * scaled[half] + sum[half];
        GPIPE_UNROLLED
        for (int e = 0; e < columns / 2; ++e) sums[g][e / 4].at[e % 4] *= scaled[e % 4 / 2];
      }
      GPIPE_UNROLLED
      for (int j = 0; j < pairs / 2; ++j) {
        left_fragment rounded[groups];
        round_columns(rounded, weights, j);
        multiply_columns(sums, rounded, memory.partner(stage, 1), 16 * j, part * columns, me.steps);
      }
    }
    GPIPE_UNROLLED
    for (int g = 0; g < groups; ++g) {
      float by[2];
      GPIPE_UNROLLED
      for (int half = 0; half < 2; ++half) {
        float all = total[g][half];
        for (int apart = 1; apart < 4; apart *= 2) all += __shfl_xor_sync(0xffffffffu, all, apart);
        const bool sees = own_end[g][half] > 0;
        by[half] = sees ? 1 / all : 0;
        const int r = row + 16 * g + 8 * half;
        if (part == 0 && me.column == 0 && r < s.queries)
          log_sums[(at.sample * s.heads + at.head) * s.queries + r] =
              sees ? top[g][half] * log_of_2 + logf(all) : lowest;
      }
      me.store(sums[g], by, rows_of(o, s.o, at.sample, at.head), at.first + of_warp + 16 * g, s.queries,
               part * columns);
    }
  }
#else
  __trap();
#endif
}

/// dq for a tile of queries. A query that sees no key, or that is not there, has L = infinity, so that p = 0.
template <int Width>
__global__ void __launch_bounds__(tensor_threads, 2)
    differentiate_queries_bf16(attention_shape s, const bf16* q, const bf16* k, const bf16* v,
                               const std::int32_t* lengths, const bf16* o, const float* log_sums, const bf16* d_o,
                               bf16* d_q, bool aligned) {
#if GPIPE_TENSOR_CORES
  using tiles = tiles_of_queries<Width>;
  constexpr int keys_of_tile = tiles::rows, columns = tiles::columns, groups = tiles::groups;
  __shared__ float products[tiles::own_rows];
  const tiles memory{shared_address(dynamic_shared()), 2};
  const tensor_thread me(s.width, aligned);
  const float factor = static_cast<float>(s.scale) * log2_of_e, scale = static_cast<float>(s.scale);
  const std::ptrdiff_t count = attention_work::count(s.samples, s.heads, s.queries, tiles::own_rows) * tiles::parts;
  for (std::ptrdiff_t index = blockIdx.x; index < count; index += gridDim.x) {
    const attention_work at(index / tiles::parts, s.heads, s.queries, tiles::own_rows);
    const int part = static_cast<int>(index % tiles::parts), key_head = at.head / (s.heads / s.key_heads);
    const auto queries = rows_of(q, s.q, at.sample, at.head), keys = rows_of(k, s.k, at.sample, key_head),
               values = rows_of(v, s.v, at.sample, key_head), mixed = rows_of(o, s.o, at.sample, at.head),
               of_mixed = rows_of(d_o, s.o, at.sample, at.head);
    const visible_keys visible(s, lengths, at.sample);
    const int last = at.first + tiles::own_rows - 1, end = visible.end(last < s.queries ? last : s.queries - 1);
    const int of_warp = 16 * groups * me.warp, row = at.first + of_warp + me.row, whole_end = visible.end(at.first);
    int own_end[groups][2];
    GPIPE_UNROLLED
    for (int e = 0; e < 2 * groups; ++e) own_end[e / 2][e % 2] = visible.end(row + 8 * e);
    const auto load = [&](int stage, int first) {
      me.load(memory.partner(stage, 0), keys, first, keys_of_tile, end);
      me.load(memory.partner(stage, 1), values, first, keys_of_tile, end);
    };
    __syncthreads();  // all threads are done with the tile before
    me.load(memory.left(0), queries, at.first, tiles::own_rows, s.queries);
    me.load(memory.left(1), of_mixed, at.first, tiles::own_rows, s.queries);
    commit_copies();
    if (groups == 1 && end > 0) load(0, 0);
    commit_copies();
    for (int r = 0; r < tiles::own_rows; r += tensor_tile)
      me.template multiply_rows<tensor_tile>(mixed, of_mixed, at.first + r, s.queries, products + r);
    await_copies<1>();
    __syncthreads();
    const left_rows<Width, tiles::kept, groups> own(memory.left(0), of_warp, me.steps),
        of_own(memory.left(1), of_warp, me.steps);
    if (groups == 2) {
      __syncthreads();
      if (end > 0) load(0, 0);
      commit_copies();
    }
    float of_row[groups][2], log_sum[groups][2];
    GPIPE_UNROLLED
    for (int e = 0; e < 2 * groups; ++e) {
      const int r = row + 8 * e, g = e / 2, half = e % 2;
      of_row[g][half] = products[r - at.first];
      log_sum[g][half] = static_cast<float>(INFINITY);
      if (r < s.queries && own_end[g][half] > 0)
        log_sum[g][half] = log2_of_e * log_sums[(at.sample * s.heads + at.head) * s.queries + r];
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
        sum_fragment weights[groups][2] = {}, of_weights[groups][2] = {};
        multiply_rows(weights, own, memory.partner(stage, 0), j, me.steps);
        multiply_rows(of_weights, of_own, memory.partner(stage, 1), j, me.steps);
        GPIPE_UNROLLED
        for (int e = 0; e < 8 * groups; ++e) {
          const int g = e / 8, n = e / 4 % 2, i = e % 4;
          float& weight = weights[g][n].at[i];
          weight = power_of_two(weight * factor - log_sum[g][i / 2]) * (of_weights[g][n].at[i] - of_row[g][i / 2]);
        }
        if (!whole) {
          GPIPE_UNROLLED
          for (int e = 0; e < 8 * groups; ++e) {
            const int g = e / 8, n = e / 4 % 2, i = e % 4;
            if (first + j + 8 * n + me.column + i % 2 >= own_end[g][i / 2]) weights[g][n].at[i] = 0;
          }
        }
        left_fragment rounded[groups];
        round_columns(rounded, weights, 0);
        multiply_columns(sums, rounded, memory.partner(stage, 0), j, part * columns, me.steps);
      }
    }
    GPIPE_UNROLLED
    for (int g = 0; g < groups; ++g)
      me.store(sums[g], {scale, scale}, rows_of(d_q, s.q, at.sample, at.head), at.first + of_warp + 16 * g, s.queries,
               part * columns);
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
    differentiate_keys_bf16(attention_shape s, const bf16* q, const bf16* k, const bf16* v, const std::int32_t* lengths,
                            const bf16* o, const float* log_sums, const bf16* d_o, bf16* d_k, bf16* d_v, bool aligned) {
#if GPIPE_TENSOR_CORES
  using tiles = tiles_of_keys<Width>;
  constexpr int queries_of_tile = tiles::rows, columns = tiles::columns;
  __shared__ float products[queries_of_tile], log_sum[queries_of_tile];
  const tiles memory{shared_address(dynamic_shared()), 2};
  const tensor_thread me(s.width, aligned);
  const float factor = static_cast<float>(s.scale) * log2_of_e, scale = static_cast<float>(s.scale);
  const std::ptrdiff_t count = attention_work::count(s.samples, s.key_heads, s.keys) * tiles::parts;
  const int group = s.heads / s.key_heads;
  for (std::ptrdiff_t index = blockIdx.x; index < count; index += gridDim.x) {
    const attention_work at(index / tiles::parts, s.key_heads, s.keys);
    const int part = static_cast<int>(index % tiles::parts);
    const visible_keys visible(s, lengths, at.sample);
    const int end = visible.count, row = at.first + 16 * me.warp + me.row;
    // The tiles of a head's queries that see one of these keys.
    const int hidden = s.causal && at.first > s.keys - s.queries ? at.first - (s.keys - s.queries) : 0;
    const int earliest = hidden / queries_of_tile * queries_of_tile;
    const int of_head = earliest < s.queries ? (s.queries - earliest + queries_of_tile - 1) / queries_of_tile : 0;
    const int all = at.first < end ? group * of_head : 0;
    const auto head_of = [&](int tile) { return at.head * group + tile / of_head; };
    const auto first_of = [&](int tile) { return earliest + tile % of_head * queries_of_tile; };
    const auto load = [&](int tile) {
      const int first = first_of(tile), stage = tile % 2;
      me.load(memory.partner(stage, 0), rows_of(q, s.q, at.sample, head_of(tile)), first, queries_of_tile, s.queries);
      me.load(memory.partner(stage, 1), rows_of(d_o, s.o, at.sample, head_of(tile)), first, queries_of_tile, s.queries);
    };
    __syncthreads();  // all threads are done with the tile before
    me.load(memory.left(0), rows_of(k, s.k, at.sample, at.head), at.first, tensor_tile, end);
    me.load(memory.left(1), rows_of(v, s.v, at.sample, at.head), at.first, tensor_tile, end);
    commit_copies();
    if (all > 0) load(0);
    commit_copies();
    await_copies<1>();
    __syncthreads();
    const left_rows<Width, Width <= 64> own(memory.left(0), 16 * me.warp, me.steps),
        own_values(memory.left(1), 16 * me.warp, me.steps);
    sum_fragment of_keys[1][columns / 8] = {}, of_values[1][columns / 8] = {};
    for (int tile = 0; tile < all; ++tile) {
      const int head = head_of(tile), first = first_of(tile), stage = tile % 2;
      __syncthreads();
      if (tile + 1 < all) load(tile + 1);
      commit_copies();
      me.template multiply_rows<queries_of_tile>(rows_of(o, s.o, at.sample, head), rows_of(d_o, s.o, at.sample, head),
                                                 first, s.queries, products);
      if (static_cast<int>(threadIdx.x) < queries_of_tile) {
        const int query = first + static_cast<int>(threadIdx.x);
        log_sum[threadIdx.x] = query < s.queries && visible.end(query) > 0
                                   ? log2_of_e * log_sums[(at.sample * s.heads + head) * s.queries + query]
                                   : static_cast<float>(INFINITY);
      }
      await_copies<1>();
      __syncthreads();
      const bool whole = !s.causal || at.first + tensor_tile <= first + visible.shift;  // each query sees each key
      GPIPE_NOT_UNROLLED
      for (int j = 0; j < queries_of_tile; j += 16) {
        sum_fragment weights[1][2] = {}, of_weights[1][2] = {};
        multiply_rows(weights, own, memory.partner(stage, 0), j, me.steps);
        multiply_rows(of_weights, own_values, memory.partner(stage, 1), j, me.steps);
        GPIPE_UNROLLED
        for (int e = 0; e < 4 * 2; ++e) {
          const int n = e / 4, i = e % 4;
          const int query = j + 8 * n + me.column + i % 2;
          float &weight = weights[0][n].at[i], &of_weight = of_weights[0][n].at[i];
          weight = power_of_two(weight * factor - log_sum[query]);
          of_weight = weight * (of_weight - products[query]);
        }
        if (!whole) {
          GPIPE_UNROLLED
          for (int e = 0; e < 4 * 2; ++e) {
            const int n = e / 4, i = e % 4;
            if (row + 8 * (i / 2) >= first + j + 8 * n + me.column + i % 2 + visible.shift)
              weights[0][n].at[i] = of_weights[0][n].at[i] = 0;
          }
        }
        left_fragment rounded[1];
        round_columns(rounded, weights, 0);
        multiply_columns(of_values, rounded, memory.partner(stage, 1), j, part * columns, me.steps);
        round_columns(rounded, of_weights, 0);
        multiply_columns(of_keys, rounded, memory.partner(stage, 0), j, part * columns, me.steps);
      }
    }
    // Keys from `end` on count for no query.
    GPIPE_UNROLLED
    for (int e = 0; e < columns / 2; ++e) {
      const int n = e / 4, i = e % 4;
      if (row + 8 * (i / 2) >= end) of_keys[0][n].at[i] = of_values[0][n].at[i] = 0;
    }
    me.store(of_keys[0], {scale, scale}, rows_of(d_k, s.k, at.sample, at.head), at.first + 16 * me.warp, s.keys,
             part * columns);
    me.store(of_values[0], {1, 1}, rows_of(d_v, s.v, at.sample, at.head), at.first + 16 * me.warp, s.keys,
             part * columns);
  }
#else
  __trap();
#endif
}

/// The bytes of shared memory that a block of these kernels can have on a GPU; 0 if the program's code for it has no
/// tensor cores' instructions, as that for architectures before sm_80.
GPIPE_COLD inline int tensor_memory(int gpu) {
  cudaFuncAttributes found{};
  check(cudaFuncGetAttributes(&found, attend_bf16<64>), "cudaFuncGetAttributes");
  int bytes = 0;
  if (found.ptxVersion >= first_with_tensor_cores)
    check(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, gpu), "cudaDeviceGetAttribute");
  return bytes;
}

/// Whether all rows of all arrays begin at 16 bytes. The results' bits do not depend on it.
inline bool rows_are_aligned(const attention_shape& s, std::initializer_list<const void*> arrays) {
  bool all = s.width % 8 == 0;
  for (const auto& at : {s.q, s.k, s.v, s.o}) all = all && at.sample % 8 == 0 && at.head % 8 == 0 && at.row % 8 == 0;
  for (const void* array : arrays) all = all && reinterpret_cast<std::uintptr_t>(array) % 16 == 0;
  return all;
}

}  // namespace gpipe::cuda::detail
