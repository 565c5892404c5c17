#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <gpipe/core/tensors/dtype.hpp>

namespace gpipe::cuda::detail {

// Arrays that are read and written 16 bytes at a time. The compiler joins no loads of single elements, for it cannot
// prove that the arrays are aligned and do not overlap.

inline constexpr int vector_bytes = 16;

/// N elements of an array.
template <class T, int N>
struct alignas((std::min)(vector_bytes, N* static_cast<int>(sizeof(T)))) neighbours {
  T value[N];
};

template <class Pointer>
using pointed = std::remove_cv_t<std::remove_pointer_t<Pointer>>;

/// The elements of a vector of a row: 16 bytes of the largest type, so that the vectors of a warp are adjacent in each
/// array.
template <class... Pointers>
inline constexpr int vector_elements = vector_bytes / (std::max)({static_cast<int>(sizeof(pointed<Pointers>))...});

/// Words that are loaded and stored by one instruction.
template <int Count>
struct vector_words {
  static_assert(Count == 1 || Count == 2 || Count == 4);
  unsigned word[Count];

  __device__ void load(const void* source) {
    if constexpr (Count == 4) {
      const uint4 found = *static_cast<const uint4*>(source);
      word[0] = found.x, word[1] = found.y, word[2] = found.z, word[3] = found.w;
    } else if constexpr (Count == 2) {
      const uint2 found = *static_cast<const uint2*>(source);
      word[0] = found.x, word[1] = found.y;
    } else {
      word[0] = *static_cast<const unsigned*>(source);
    }
  }
  /// The compiler would split the store of a uint4.
  __device__ void store(void* target) const {
    const auto address = __cvta_generic_to_global(target);
    if constexpr (Count == 4)
      asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(address), "r"(word[0]), "r"(word[1]), "r"(word[2]),
                   "r"(word[3])
                   : "memory");
    else if constexpr (Count == 2)
      asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(address), "r"(word[0]), "r"(word[1]) : "memory");
    else *static_cast<unsigned*>(target) = word[0];
  }
};

// assumes: half precision is bf16
/// A vector of an array as numbers.
template <class T, int N>
struct vector_of_numbers {
  static_assert(std::is_same_v<T, bf16> || std::is_same_v<T, float> || std::is_same_v<T, double>);
  using words = vector_words<N* static_cast<int>(sizeof(T)) / 4>;
  compute_type<T> number[N];

  /// A vector begins at the source.
  __device__ void load(const T* source) {
    words found;
    found.load(source);
    _Pragma("unroll") for (int k = 0; k < N; ++k) {
      if constexpr (std::is_same_v<T, bf16>)  // one instruction
        number[k] = __uint_as_float(k % 2 == 0 ? found.word[k / 2] << 16 : found.word[k / 2] & 0xffff0000U);
      else if constexpr (std::is_same_v<T, float>) number[k] = __uint_as_float(found.word[k]);
      else number[k] = __hiloint2double(static_cast<int>(found.word[2 * k + 1]), static_cast<int>(found.word[2 * k]));
    }
  }
  /// Rounds the numbers.
  __device__ void store(T* target) const {
    words made;
    _Pragma("unroll") for (int k = 0; k < N; ++k) {
      if constexpr (std::is_same_v<T, bf16>) {
        if (k % 2 == 0) made.word[k / 2] = in_bf16(number[k], number[k + 1]);
      } else if constexpr (std::is_same_v<T, float>) {
        made.word[k] = __float_as_uint(number[k]);
      } else {
        made.word[2 * k] = static_cast<unsigned>(__double2loint(number[k]));
        made.word[2 * k + 1] = static_cast<unsigned>(__double2hiint(number[k]));
      }
    }
    made.store(target);
  }

 private:
  __device__ static unsigned in_bf16(float first, float second) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    unsigned pair = 0;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
    return pair;
#else
    return bf16(first).bits | unsigned{bf16(second).bits} << 16;
#endif
  }
};

/// The element of a vector at which a row begins, or -1 if it is not the same in all arrays of the row.
///
///     bf16, address 6 mod 16:    . . . 0 1 2 3 4 | 5 6 7 8 9 10 11 12 | 13 ...        begins at 3
template <int N, class T, class... Ts>
__device__ int first_of_row(const T* x, const Ts*... others) {
  const auto first = [](const auto* array) {
    return static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(array)) / unsigned{sizeof *array} % unsigned{N};
  };
  const unsigned found = first(x);
  return ((first(others) == found) && ...) ? static_cast<int>(found) : -1;
}

/// Runs over the vectors of a row, and the elements before and after them, that belong to one of `Threads` threads:
/// vector v belongs to thread v mod Threads. Calls several(i) for a vector whose first element is i, and single(i, k)
/// for a single element, the k-th of a vector, both in ascending order.
template <int Threads, int N, class Several, class One>
__device__ void over_vectors(std::ptrdiff_t width, int first, int thread, Several several, One single) {
  std::ptrdiff_t i = thread * N - first;
  if (i < 0) {
    _Pragma("unroll 1") for (int k = first; k < N && k - first < width; ++k) single(std::ptrdiff_t{k - first}, k);
    i += N * Threads;
  }
  _Pragma("unroll 1") for (; i + N <= width; i += N * Threads) several(i);
  _Pragma("unroll 1") for (int k = 0; i < width; ++i, ++k) single(i, k);
}

// Sums over a row have one order, wherever its arrays begin, so that a row has the same bits in every batch and at
// every place of memory. With N elements in a vector, the numbers of a warp are
//
//     a(r) = g(r) + g(r + N Threads) + g(r + 2 N Threads) + ...,  0 <= r < N Threads
//
// and they are added in pairs 1 apart, 2, 4, ... 16 N, and then the warps' sums in order. A thread of whole vectors has
// N neighbours of the a(r). A thread that reads elements one by one has a(thread), a(thread + Threads), ...

inline constexpr int warp_lanes = 32;

struct add_numbers {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
struct larger_number {
  template <class T>
  __device__ T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) return fmax(a, b);  // ignores NaN, too
    else return b > a ? b : a;
  }
};

template <class T, class Op>
__device__ T over_lanes(T value, int first_distance, Op op) {
  _Pragma("unroll") for (int distance = 1; distance < warp_lanes; distance *= 2) if (distance >= first_distance) value =
      op(value, __shfl_xor_sync(0xffffffffu, value, distance));
  return value;
}

/// The sums of neighbours in pairs 1 apart, 2, 4, ...
template <class T, int N, class Op>
__device__ T in_pairs(T (&value)[N], Op op) {
  _Pragma("unroll") for (int distance = 1; distance < N; distance *= 2)
      _Pragma("unroll") for (int k = 0; k + distance < N; k += 2 * distance) value[k] =
          op(value[k], value[k + distance]);
  return value[0];
}

/// Combines one number per warp, in order.
template <int Threads, class T, class Op>
__device__ T join_warps(T value, Op op) {
  constexpr int warps = Threads / warp_lanes;
  __shared__ T of_warp[warps];
  if (threadIdx.x % warp_lanes == 0) of_warp[threadIdx.x / warp_lanes] = value;
  __syncthreads();
  T combined = of_warp[0];
  for (int w = 1; w < warps; ++w) combined = op(combined, of_warp[w]);
  __syncthreads();  // the next reduction reuses of_warp
  return combined;
}

/// Combines the numbers of threads, each of which has neighbours.
template <int Threads, class T, int N, class Op>
__device__ T join_neighbours(T (&value)[N], Op op) {
  const T of_lanes = over_lanes(in_pairs(value, op), 1, op);
  if constexpr (Threads == warp_lanes) return of_lanes;
  else return join_warps<Threads>(of_lanes, op);
}

/// Combines the numbers of threads whose k-th number is a(thread + k Threads): each lane takes the sums of 32
/// neighbours for one k.
template <int Threads, class T, int N, class Op>
__device__ T join_scattered(T (&value)[N], Op op) {
  const int lane = static_cast<int>(threadIdx.x % warp_lanes);
  _Pragma("unroll") for (int distance = 1; distance < N; distance *= 2) {
    const bool odd = (lane & distance) != 0;
    _Pragma("unroll") for (int k = 0; 2 * k * distance < N; ++k) {
      const T keeps = odd ? value[2 * k + 1] : value[2 * k], gives = odd ? value[2 * k] : value[2 * k + 1];
      value[k] = op(keeps, __shfl_xor_sync(0xffffffffu, gives, distance));
    }
  }
  const T lane_value = over_lanes(value[0], N, op);  // for k = lane mod N
  if constexpr (Threads == warp_lanes) {
    T combined = lane_value;
    _Pragma("unroll") for (int distance = 1; distance < N; distance *= 2) combined =
        op(combined, __shfl_xor_sync(0xffffffffu, combined, distance));
    return combined;
  } else {
    // Sums of 32 neighbours: number warp + 8 k. Each N of them are the numbers of a warp with neighbours.
    constexpr int warps = Threads / warp_lanes;
    __shared__ T found[warps][N + 1];  // N, and one against conflicts of banks
    const int number = static_cast<int>(threadIdx.x / warp_lanes) + warps * lane;
    if (lane < N) found[number / N][number % N] = lane_value;
    __syncthreads();
    T numbers[N], combined = T();
    _Pragma("unroll") for (int k = 0; k < N; ++k) numbers[k] = found[lane % warps][k];
    const T of_warp = in_pairs(numbers, op);
    for (int w = 0; w < warps; ++w) {
      const T next = __shfl_sync(0xffffffffu, of_warp, w);
      combined = w == 0 ? next : op(combined, next);
    }
    __syncthreads();
    return combined;
  }
}

/// numbers[k] = numbers[k + first] for `first` < 2 Shift; Shift is a power of two.
template <int Shift, class T, int Size>
__device__ void shift_numbers(T (&numbers)[Size], int first) {
  if ((first & Shift) != 0) {
    _Pragma("unroll") for (int k = 0; k + Shift < Size; ++k) numbers[k] = numbers[k + Shift];
  }
  if constexpr (Shift > 1) shift_numbers<Shift / 2>(numbers, first);
}

/// Moves the numbers of a row that begins at element `first` of a vector to the threads that would have them if it
/// began at element 0: value[k] becomes value[k + first], and the last numbers are the first of the next thread.
template <int Threads, class T, int N>
__device__ void align_numbers(T (&value)[N], int first) {
  const int lane = static_cast<int>(threadIdx.x % warp_lanes);
  T window[2 * N];
  _Pragma("unroll") for (int k = 0; k < N; ++k) {
    window[k] = value[k];
    window[N + k] = __shfl_sync(0xffffffffu, value[k], (lane + 1) % warp_lanes);
  }
  if constexpr (Threads > warp_lanes) {
    constexpr int warps = Threads / warp_lanes;
    __shared__ T of_first[warps][N];  // of a warp's first thread
    const int warp = static_cast<int>(threadIdx.x / warp_lanes);
    if (lane == 0) {
      _Pragma("unroll") for (int k = 0; k < N; ++k) of_first[warp][k] = value[k];
    }
    __syncthreads();
    if (lane == warp_lanes - 1) {
      _Pragma("unroll") for (int k = 0; k < N; ++k) window[N + k] = of_first[(warp + 1) % warps][k];
    }
  }
  shift_numbers<N / 2>(window, first);
  _Pragma("unroll") for (int k = 0; k < N; ++k) value[k] = window[k];
}

/// g(i, arrays...) for i in [0, width), combined by `op`, in the order above.
template <int Threads, class T, class Op, class G, class... Pointers>
__device__ T reduce_arrays(std::ptrdiff_t width, T identity, Op op, G g, Pointers... array) {
  constexpr int N = vector_elements<Pointers...>;
  const int thread = static_cast<int>(threadIdx.x % Threads), first = first_of_row<N>(array...);
  T value[N];
  _Pragma("unroll") for (int k = 0; k < N; ++k) value[k] = identity;
  if (first < 0) {
    for (std::ptrdiff_t begin = thread; begin < width; begin += N * Threads)
      _Pragma("unroll") for (int k = 0; k < N; ++k) if (const std::ptrdiff_t i = begin + k * Threads; i < width)
          value[k] = op(value[k], g(i, array...));
    return join_scattered<Threads>(value, op);
  }
  const auto several = [&](std::ptrdiff_t i, auto... vectors) {
    (vectors.load(array + i), ...);
    _Pragma("unroll") for (std::ptrdiff_t k = 0; k < N; ++k) value[k] = op(value[k], g(k, vectors.number...));
  };
  over_vectors<Threads, N>(
      width, first, thread, [&](std::ptrdiff_t i) { several(i, vector_of_numbers<pointed<Pointers>, N>{}...); },
      [&](std::ptrdiff_t i, int position) {
        const T number = g(i, array...);
        _Pragma("unroll") for (int k = 0; k < N; ++k) value[k] = k == position ? op(value[k], number) : value[k];
      });
  if constexpr (std::is_same_v<Op, add_numbers>)
    if (first > 0) align_numbers<Threads>(value, first);
  return join_neighbours<Threads>(value, op);
}

/// g(i, arrays...) for i in [0, width): it reads the constant arrays and writes the other arrays.
template <int Threads, class G, class... Pointers>
__device__ void write_arrays(std::ptrdiff_t width, G g, Pointers... array) {
  constexpr int N = vector_elements<Pointers...>;
  const int thread = static_cast<int>(threadIdx.x % Threads), first = first_of_row<N>(array...);
  if (first < 0) {
    for (std::ptrdiff_t i = thread; i < width; i += Threads) g(i, array...);
    return;
  }
  const auto read = []<class Pointer>(Pointer source, auto& vectors) {
    if constexpr (std::is_const_v<std::remove_pointer_t<Pointer>>) vectors.load(source);
  };
  const auto write = []<class Pointer>(Pointer target, const auto& vectors) {
    if constexpr (!std::is_const_v<std::remove_pointer_t<Pointer>>) vectors.store(target);
  };
  const auto several = [&](std::ptrdiff_t i, auto... vectors) {
    (read(array + i, vectors), ...);
    _Pragma("unroll") for (std::ptrdiff_t k = 0; k < N; ++k) g(k, vectors.number...);
    (write(array + i, vectors), ...);
  };
  over_vectors<Threads, N>(
      width, first, thread, [&](std::ptrdiff_t i) { several(i, vector_of_numbers<pointed<Pointers>, N>{}...); },
      [&](std::ptrdiff_t i, int) { g(i, array...); });
}

}  // namespace gpipe::cuda::detail
