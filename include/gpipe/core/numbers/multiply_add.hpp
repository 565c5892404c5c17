#pragma once

#include <cstddef>
#include <type_traits>

#include <gpipe/core/config.hpp>

/// 1 if the target has a fused multiply-add: a * b + c, rounded once.
#if defined(__FMA__) || defined(__FMA4__) || defined(__AVX512F__) || defined(__FP_FAST_FMAF) || \
    defined(__ARM_FEATURE_FMA) || defined(__CUDA_ARCH__)
#define GPIPE_HAS_FMA 1
#else
#define GPIPE_HAS_FMA 0
#endif

namespace gpipe::detail {

/// a * b + c for floating-point numbers: rounded once where the target has a fused operation, else twice.
///
/// Compilers may fuse `a * b + c` or not. g++ does so in the scalar remainder of a loop and not in its vector body, if
/// it tunes for a processor on which chains of fused operations are slow (-mtune=znver3), and -ffp-contract changes it,
/// too. Then an element's bits depend on the number of its neighbours. This operation is the same everywhere in a
/// program, so sums that must not depend on neighbours consist of it.
template <class T>
GPIPE_HOST_DEVICE constexpr T multiply_add(T a, T b, std::type_identity_t<T> c) {
#if GPIPE_HAS_FMA
#ifdef __clang__  // its builtin is not a constant expression: there the sum is rounded twice
  if (std::is_constant_evaluated()) return a * b + c;
#endif
  if constexpr (sizeof(T) == sizeof(float)) return __builtin_fmaf(a, b, c);
  else return __builtin_fma(a, b, c);
#else
  return a * b + c;
#endif
}

/// a * b, rounded: no compiler fuses it with a sum that it is added to.
template <class T>
GPIPE_HOST_DEVICE constexpr T rounded_product(T a, T b) {
  return multiply_add(a, b, T(0));
}

/// sum + a * b, where the product is rounded in T first if that is narrower than the sum.
template <class T>
GPIPE_HOST_DEVICE constexpr double add_product(double sum, T a, T b) {
  if constexpr (std::is_same_v<T, double>) return multiply_add(a, b, sum);
  else return sum + static_cast<double>(a * b);
}

/// Fixes the values as they are rounded so far: no product among them is fused with a later addition. The only
/// instruction is the store of a register.
template <class T, std::size_t N>
GPIPE_HOST_DEVICE inline void keep_rounded([[maybe_unused]] T (&values)[N]) {
#ifndef __CUDA_ARCH__
  asm("" : "+m"(values));
#endif
}

}  // namespace gpipe::detail
