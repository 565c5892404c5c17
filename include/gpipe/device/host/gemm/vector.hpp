#pragma once

#include <type_traits>

#include <gpipe/core/numbers/multiply_add.hpp>

namespace gpipe::host::detail {

// The compiler's own vectors, as wide as the registers of the target machine.
#if defined(__AVX512F__)
inline constexpr int vector_bytes = 64;
#elif defined(__AVX__)
inline constexpr int vector_bytes = 32;
#else
inline constexpr int vector_bytes = 16;
#endif

template <class T>
struct vector {
  static constexpr int width = vector_bytes / static_cast<int>(sizeof(T));
  using type [[gnu::vector_size(vector_bytes)]] = T;
  using in_memory [[gnu::vector_size(vector_bytes), gnu::aligned(sizeof(T)), gnu::may_alias]] = T;

  // Not memcpy, which would tie an array of vectors to memory.
  static type load(const T* from) { return *reinterpret_cast<const in_memory*>(from); }
  static void store(type value, T* into) { *reinterpret_cast<in_memory*>(into) = value; }

  /// The same number in every lane.
  static type repeat(T value) { return value - type{}; }  // not a sum, which would change -0

  /// a * b + c in every lane, with the bits of `gpipe::detail::multiply_add`. The builtins are those of <immintrin.h>,
  /// which takes as long to compile as half of the library.
  [[gnu::always_inline]] static inline type multiply_add(type a, type b, type c) {
#if defined(__AVX512F__) && !defined(__CUDACC__)
    constexpr int as_the_environment_rounds = 4, all_lanes = -1;
    if constexpr (std::is_same_v<T, float>)
      return __builtin_ia32_vfmaddps512_mask(a, b, c, all_lanes, as_the_environment_rounds);
    else return __builtin_ia32_vfmaddpd512_mask(a, b, c, all_lanes, as_the_environment_rounds);
#elif defined(__FMA__) && defined(__AVX__) && !defined(__CUDACC__)
    if constexpr (std::is_same_v<T, float>) return __builtin_ia32_vfmaddps256(a, b, c);
    else return __builtin_ia32_vfmaddpd256(a, b, c);
#else
    for (int l = 0; l < width; ++l) a[l] = gpipe::detail::multiply_add(a[l], b[l], c[l]);
    return a;
#endif
  }
};

}  // namespace gpipe::host::detail
