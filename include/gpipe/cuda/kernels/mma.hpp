#pragma once

#include <gpipe/core/tensors/dtype.hpp>

namespace gpipe::cuda::detail {

// The instructions of tensor cores, for architectures from sm_80 on, one function each: products of 16 x 16 by 16 x 8
// bf16 with sums in float, loads of their operands from shared memory, and asynchronous copies into shared memory. All
// 32 threads of a warp call a product, or a load, together.
//
// A thread is a lane of its warp. With g = lane / 4 and t = lane % 4 it holds these elements (PTX ISA, "Matrix
// Fragments for mma.m16n8k16"), two bf16 in each word, the first in the lower half:
//
//     left, 16 rows x 16               right, 16 x 8 columns          sums, 16 rows x 8 columns
//
//               2t  2t+1   2t+8 2t+9              g                             2t       2t+1
//     row g     word 0     word 2      2t, +1     word 0             row g     value 0  value 1
//     row g+8   word 1     word 3      2t+8, +9   word 1             row g+8   value 2  value 3
//
// So the sums of two neighbours are, rounded and packed, a left operand 16 columns wide: `as_left`.
//
// The hardware adds the 16 products of an element and the former sum in an unspecified order that is always the same:
// equal operands give equal bits on one kind of GPU, wherever their rows are in a tile.

/// Whether the code that is compiled may use these instructions; without them their functions trap.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define GPIPE_TENSOR_CORES 1
#else
#define GPIPE_TENSOR_CORES 0
#endif
inline constexpr int first_with_tensor_cores = 80;  ///< of architectures, as in compute_80

struct left_fragment {
  unsigned word[4];
};
struct right_fragment {
  unsigned word[2];
};
struct sum_fragment {
  float value[4];
};

inline constexpr int warp_size = 32;
__device__ inline int lane_of_warp() { return static_cast<int>(threadIdx.x) % warp_size; }

/// sums += left * right
__device__ inline void multiply_add(sum_fragment& sums, const left_fragment& left, const right_fragment& right) {
#if GPIPE_TENSOR_CORES
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(sums.value[0]), "+f"(sums.value[1]), "+f"(sums.value[2]), "+f"(sums.value[3])
      : "r"(left.word[0]), "r"(left.word[1]), "r"(left.word[2]), "r"(left.word[3]), "r"(right.word[0]),
        "r"(right.word[1]));
#else
  __trap();
#endif
}

/// An address in shared memory, as these instructions take it.
__device__ inline unsigned shared_address(const void* address) {
  return static_cast<unsigned>(__cvta_generic_to_shared(address));
}

/// The shared memory whose size the launch gives.
__device__ inline const void* dynamic_shared() {
  extern __shared__ uint4 gpipe_dynamic_shared[];
  return gpipe_dynamic_shared;
}
/// Stores 16 bytes at an aligned address.
__device__ inline void store_words(unsigned address, const unsigned (&word)[4]) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(word[0]), "r"(word[1]), "r"(word[2]),
               "r"(word[3])
               : "memory");
}

/// Loads Count matrices of 8 rows of 8 bf16: lane 8 m + r gives the address of row r of matrix m, 16 bytes which are
/// aligned. Word m of a lane is then elements 2t and 2t + 1 of row g of matrix m; if transposed, of column g.
template <int Count, bool Transposed = false>
__device__ inline void load_matrices(unsigned (&word)[Count], unsigned row) {
  static_assert(Count == 1 || Count == 2 || Count == 4);
#if GPIPE_TENSOR_CORES
  if constexpr (Count == 1 && !Transposed)
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(word[0]) : "r"(row) : "memory");
  else if constexpr (Count == 1)
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];" : "=r"(word[0]) : "r"(row) : "memory");
  else if constexpr (Count == 2 && !Transposed)
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(word[0]), "=r"(word[1])
                 : "r"(row)
                 : "memory");
  else if constexpr (Count == 2)
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(word[0]), "=r"(word[1])
                 : "r"(row)
                 : "memory");
  else if constexpr (!Transposed)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
                 : "r"(row)
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
                 : "r"(row)
                 : "memory");
#else
  __trap();
#endif
}

/// Begins to copy `bytes` bytes, 0 to 16, into 16 bytes of shared memory, and fills the remainder with zeros. Both
/// addresses are aligned to 16 bytes; with 0 bytes the source may be any address. This thread may read the target after
/// it has awaited the copy, other threads after a subsequent barrier.
__device__ inline void begin_copy(unsigned target, const void* source, int bytes) {
#if GPIPE_TENSOR_CORES
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(target), "l"(__cvta_generic_to_global(source)),
               "r"(bytes)
               : "memory");
#else
  __trap();
#endif
}
/// The thread's copies since the last commit become a group.
__device__ inline void commit_copies() {
#if GPIPE_TENSOR_CORES
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
/// Waits until at most the last Pending groups of the thread are incomplete.
template <int Pending>
__device__ inline void await_copies() {
#if GPIPE_TENSOR_CORES
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
#endif
}

/// Two floats rounded to bf16, to nearest, ties to even.
__device__ inline unsigned packed(float first, float second) {
  unsigned word = 0;
#if GPIPE_TENSOR_CORES
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(second), "f"(first));
#endif
  return word;
}
/// Columns 0 to 7 and 8 to 15 of sums, as the left operand of another product.
__device__ inline left_fragment as_left(const sum_fragment& low, const sum_fragment& high) {
  return {{packed(low.value[0], low.value[1]), packed(low.value[2], low.value[3]), packed(high.value[0], high.value[1]),
           packed(high.value[2], high.value[3])}};
}

/// Rows of Width bf16 in shared memory. Word group c of row r, 16 bytes, is at place c ^ r % 8 of its row, so that the
/// eight rows of a matrix are in different banks, whose 128 bytes are the width of 64 bf16.
template <int Width>
struct swizzled_rows {
  static_assert(Width % 64 == 0);
  static constexpr int group = 8;  ///< bf16 of 16 bytes

  unsigned first;  ///< shared address

  __device__ unsigned at(int row, int c) const {
    return first + static_cast<unsigned>(row * Width * 2 + (c ^ row % 8) * 16);
  }
  /// Rows [row, row + 16) and columns [column, column + 16) as a left operand; both are multiples of 16.
  __device__ left_fragment left(int row, int column) const {
    const int lane = lane_of_warp();
    left_fragment found;
    load_matrices(found.word, of_lane(row, lane % 16, column, lane / 16));
    return found;
  }
  /// The same elements, whose columns are the operand's rows.
  __device__ left_fragment left_transposed(int row, int column) const {
    const int lane = lane_of_warp();
    left_fragment found;
    load_matrices<4, true>(found.word, of_lane(row, lane % 8 + lane / 16 * 8, column, lane / 8 % 2));
    return found;
  }
  /// The same elements, whose rows are the sums' columns, as two right operands: rows 0 to 7, and 8 to 15.
  __device__ void right(right_fragment (&found)[2], int row, int column) const {
    const int lane = lane_of_warp();
    unsigned word[4];
    load_matrices(word, of_lane(row, lane % 8 + lane / 16 * 8, column, lane / 8 % 2));
    found[0] = {{word[0], word[1]}}, found[1] = {{word[2], word[3]}};
  }
  /// The same elements, whose columns are the sums' columns, as two right operands: columns 0 to 7, and 8 to 15.
  __device__ void right_transposed(right_fragment (&found)[2], int row, int column) const {
    const int lane = lane_of_warp();
    unsigned word[4];
    load_matrices<4, true>(word, of_lane(row, lane % 16, column, lane / 16));
    found[0] = {{word[0], word[1]}}, found[1] = {{word[2], word[3]}};
  }

 private:
  // at(row + lane_row, column / 8 + half), in an order that leaves little to compute for constant rows and columns.
  __device__ unsigned of_lane(int row, int lane_row, int column, int half) const {
    const int of_lane = lane_row * Width * 2 + (half ^ lane_row % 8) * 16;
    return (first + static_cast<unsigned>(of_lane ^ column * 2)) + static_cast<unsigned>(row * Width * 2);
  }
};

}  // namespace gpipe::cuda::detail
