#pragma once

#include <gpipe/core/tensors/lanes.hpp>

namespace gpipe::host::detail {

/// As many numbers as a register of the target machine has.
template <class T>
struct vector : gpipe::detail::lanes<T, gpipe::detail::vector_bytes / static_cast<int>(sizeof(T))> {
  static constexpr int width = gpipe::detail::vector_bytes / static_cast<int>(sizeof(T));
};

/// Whether the target machine has instructions that load and store the first lanes of a vector.
#if defined(__AVX512F__) && !defined(__CUDACC__) && defined(__has_builtin)
#if __has_builtin(__builtin_ia32_loadups512_mask) && __has_builtin(__builtin_ia32_storeups512_mask)
#define GPIPE_HAS_MASKS 1
#endif
#endif
#ifndef GPIPE_HAS_MASKS
#define GPIPE_HAS_MASKS 0
#endif
inline constexpr bool has_masks = GPIPE_HAS_MASKS == 1;

/// The first `count` numbers from memory, then zeros. Memory beyond them is not read.
template <class T>
[[gnu::always_inline]] inline typename vector<T>::type load_first(const T* source, int count) {
#if GPIPE_HAS_MASKS
  if constexpr (sizeof(T) == 4)
    return __builtin_ia32_loadups512_mask(source, typename vector<T>::type{},
                                          static_cast<unsigned short>(0xffffu >> (16 - count)));
  else
    return __builtin_ia32_loadupd512_mask(source, typename vector<T>::type{},
                                          static_cast<unsigned char>(0xffu >> (8 - count)));
#else
  if (count == vector<T>::width) return vector<T>::load(source);
  T some[vector<T>::width] = {};
  for (int i = 0; i < count; ++i) some[i] = source[i];
  return vector<T>::load(some);
#endif
}

/// Stores the first `count` numbers.
template <class T>
[[gnu::always_inline]] inline void store_first(typename vector<T>::type value, T* target, int count) {
#if GPIPE_HAS_MASKS
  if constexpr (sizeof(T) == 4)
    __builtin_ia32_storeups512_mask(target, value, static_cast<unsigned short>(0xffffu >> (16 - count)));
  else __builtin_ia32_storeupd512_mask(target, value, static_cast<unsigned char>(0xffu >> (8 - count)));
#else
  if (count == vector<T>::width) return vector<T>::store(value, target);
  T some[vector<T>::width];
  vector<T>::store(value, some);
  for (int i = 0; i < count; ++i) target[i] = some[i];
#endif
}

}  // namespace gpipe::host::detail

#undef GPIPE_HAS_MASKS
