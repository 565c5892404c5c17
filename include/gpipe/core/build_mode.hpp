#pragma once

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
