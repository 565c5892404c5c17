#pragma once

#if __cplusplus < 202002L
#error "gpipe needs C++20: compile with -std=c++20 (for nvcc with CMake before 3.26, link gpipe::gpipe)"
#endif

#ifdef Index
#error "gpipe: <complex.h> defines I as a macro, which is a name here: include gpipe before it, or #undef I"
#endif

#include <cstddef>

/// 1: products of matrices by libxsmm, with which the program then links. All sources of a program use the same value.
#ifndef GPIPE_WITH_LIBXSMM
#define GPIPE_WITH_LIBXSMM 0
#endif

/// 0: every source compiles all that it uses (header-only, the default). 1: the part that does not depend on a model is
/// compiled once, by include/gpipe/compiled.cpp. All sources of a program use the same value.
#ifndef GPIPE_COMPILED
#define GPIPE_COMPILED 0
#endif

/// The templates that a source of the compiled library instantiates for all programs, a sum: 1 for the executor and the
/// trainer, 2 for kernels over floats, 4 for those over bf16.
#ifndef GPIPE_COMPILED_SOURCE
#define GPIPE_COMPILED_SOURCE 0
#endif
#if GPIPE_COMPILED_SOURCE && !GPIPE_COMPILED
#error "gpipe: compiled.cpp belongs to programs whose sources are all compiled with -DGPIPE_COMPILED=1"
#endif

/// In compiled mode only the compiled library contains the definitions of functions with this mark, in files NAME-inl.
#if GPIPE_COMPILED
// change: a compiled definition; in a file NAME-inl
#define GPIPE_INLINE
#else
#define GPIPE_INLINE inline
#endif

#if defined(__ELF__) && !defined(__CUDA_ARCH__)
// Incompatible sources do not link. Every source defines the same symbol, as an alias of an inline variable whose
// name says how the source is compiled. Linkers merge the definitions of one name, and report a duplicate symbol if
// there are two names.

// The flags on which bits depend, or the layout of the standard library's types.
#if defined(__AVX512F__)
#define GPIPE_FLAG_VECTORS avx512
#elif defined(__AVX2__)
#define GPIPE_FLAG_VECTORS avx2
#elif defined(__AVX__)
#define GPIPE_FLAG_VECTORS avx
#else
#define GPIPE_FLAG_VECTORS baseline
#endif
#if defined(__FMA__)
#define GPIPE_FLAG_FMA fma
#else
#define GPIPE_FLAG_FMA no_fma
#endif
#if defined(__FAST_MATH__)
#define GPIPE_FLAG_MATH fast_math
#else
#define GPIPE_FLAG_MATH exact_math
#endif
#if GPIPE_WITH_LIBXSMM
#define GPIPE_FLAG_GEMM libxsmm
#else
#define GPIPE_FLAG_GEMM no_libxsmm
#endif
#if defined(_GLIBCXX_DEBUG)
#define GPIPE_FLAG_CONTAINERS checked_containers
#else
#define GPIPE_FLAG_CONTAINERS containers
#endif
#define GPIPE_JOINED(prefix, a, b, c, d, e) prefix##_##a##_##b##_##c##_##d##_##e
#define GPIPE_EXPANDED(prefix, a, b, c, d, e) GPIPE_JOINED(prefix, a, b, c, d, e)
#define GPIPE_WITH_FLAGS(prefix) \
  GPIPE_EXPANDED(prefix, GPIPE_FLAG_VECTORS, GPIPE_FLAG_FMA, GPIPE_FLAG_MATH, GPIPE_FLAG_GEMM, GPIPE_FLAG_CONTAINERS)
#define GPIPE_TEXT(name) #name
#define GPIPE_TEXT_OF(name) GPIPE_TEXT(name)

extern "C" {
#if !GPIPE_COMPILED
[[gnu::used]] inline const char* gpipe_mode_header_only = nullptr;
// NOLINTNEXTLINE(misc-definitions-in-headers)
extern const char* gpipe_is_header_only_in_one_source_and_compiled_in_another
    __attribute__((alias("gpipe_mode_header_only")));
#ifndef __CUDACC__  // nvcc's sources may have other flags for the host: their kernels are a GPU's
[[gnu::used]] inline const char* GPIPE_WITH_FLAGS(gpipe_flags) = nullptr;
// NOLINTNEXTLINE(misc-definitions-in-headers)
extern const char* gpipe_has_different_compiler_flags_in_two_sources
    __attribute__((alias(GPIPE_TEXT_OF(GPIPE_WITH_FLAGS(gpipe_flags)))));
#endif
#else
// A compiled source refers to the library by a name that lists its flags. A library with other flags does not define
// it.
extern const char GPIPE_WITH_FLAGS(gpipe_compiled_for);
#if GPIPE_COMPILED_SOURCE & 1
const char GPIPE_WITH_FLAGS(gpipe_compiled_for) = 0;
#endif
[[gnu::used]] inline const char* gpipe_mode_compiled = &GPIPE_WITH_FLAGS(gpipe_compiled_for);
// NOLINTNEXTLINE(misc-definitions-in-headers)
extern const char* gpipe_is_header_only_in_one_source_and_compiled_in_another
    __attribute__((alias("gpipe_mode_compiled")));
#endif
}
#undef GPIPE_FLAG_VECTORS
#undef GPIPE_FLAG_FMA
#undef GPIPE_FLAG_MATH
#undef GPIPE_FLAG_GEMM
#undef GPIPE_FLAG_CONTAINERS
#undef GPIPE_JOINED
#undef GPIPE_EXPANDED
#undef GPIPE_WITH_FLAGS
#undef GPIPE_TEXT
#undef GPIPE_TEXT_OF
#endif

// change: a device; the compiler
/// Marks a function that runs on host and device, such as the functors of a layer's kernels.
#ifdef __CUDACC__
#define GPIPE_HOST_DEVICE __host__ __device__
#else
#define GPIPE_HOST_DEVICE
#endif

/// Compiles a kernel once, out of line. Inlined into different callers, or cloned for a constant argument, the same
/// text may contract to different fused multiply-adds and so give different bits. With 512-bit registers, loops use the
/// full width, as matrix products do; g++ would choose half of it.
#if defined(__clang__)
#define GPIPE_OUT_OF_LINE __attribute__((noinline))
#elif defined(__AVX512F__) && !defined(__CUDACC__)
#define GPIPE_OUT_OF_LINE __attribute__((noinline, noclone, target("prefer-vector-width=512")))
#else
#define GPIPE_OUT_OF_LINE __attribute__((noinline, noclone))
#endif

/// A loop of a kernel that is called per row: a function with separate registers on a host, inlined on a GPU.
#ifdef __CUDACC__
#define GPIPE_ROW_LOOP
#else
#define GPIPE_ROW_LOOP GPIPE_OUT_OF_LINE
#endif

/// For a lambda that is the body of a loop: keeps its captures in registers.
#define GPIPE_INLINED __attribute__((always_inline))

/// Keeps code that runs rarely (set-up, reports, error texts) out of line and small: it compiles in half the time.
/// (The attribute is not `cold`: compilers then treat the callers of such a function as cold, too.)
#if defined(__clang__)
#define GPIPE_COLD __attribute__((noinline, minsize))
#elif defined(__CUDACC__) || !defined(__OPTIMIZE__)
#define GPIPE_COLD __attribute__((noinline))
#else
#define GPIPE_COLD __attribute__((noinline, optimize("Os")))
#endif

/// Before a loop that spills registers where nvcc unrolls it for a GPU, and before one whose arrays are in registers
/// only if it is unrolled.
#ifdef __CUDA_ARCH__
#define GPIPE_NOT_UNROLLED _Pragma("unroll 1")
#define GPIPE_UNROLLED _Pragma("unroll")
#else
#define GPIPE_NOT_UNROLLED
#define GPIPE_UNROLLED
#endif

/// With -D GPIPE_CANARY=1 every training run overwrites dead buffers: see `training_options::canary`.
#ifndef GPIPE_CANARY
#define GPIPE_CANARY 0
#endif

/// Pipeline-parallel training of neural networks: layers make a model, a model makes a plan, and a trainer runs the
/// plan. The parts of a device or a transport have their own namespaces; `detail` and `broken` are not public.
namespace gpipe::detail {

/// The alignment of every buffer in bytes: a cache line, and the widest vector register.
inline constexpr std::size_t alignment = 64;

/// `bytes` rounded up to a multiple of `alignment`.
constexpr std::size_t aligned(std::size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

/// A number that is not negative, as an index of a standard container.
constexpr std::size_t index(int i) { return static_cast<std::size_t>(i); }

}  // namespace gpipe::detail
