#pragma once

/// 1: products of matrices by libxsmm, with which the program then links. All sources of a program use the same value.
#ifndef GPIPE_WITH_LIBXSMM
#define GPIPE_WITH_LIBXSMM 0
#endif

/// 0: every source compiles all that it uses (header-only, the default). 1: the part that does not depend on a model is
/// compiled once, in include/gpipe/compiled.cpp. All sources of a program use the same value.
#ifndef GPIPE_COMPILED
#define GPIPE_COMPILED 0
#endif

/// 1 in compiled.cpp alone.
#ifndef GPIPE_COMPILED_SOURCE
#define GPIPE_COMPILED_SOURCE 0
#endif

/// 1 if this source compiles the bodies of the functions that are marked GPIPE_INLINE. In the compiled mode only
/// compiled.cpp does, and the functions are not inline.
#define GPIPE_BODIES (!GPIPE_COMPILED || GPIPE_COMPILED_SOURCE)
#if GPIPE_COMPILED
#define GPIPE_INLINE
#else
#define GPIPE_INLINE inline
#endif

#if defined(__ELF__) && !defined(__CUDA_ARCH__)
// Two sources of different modes do not link. Every source defines the same symbol, as an alias of an inline variable
// whose name is the mode's. Linkers merge the definitions of one mode, and report a duplicate symbol if there are two
// modes.
#if !GPIPE_COMPILED
extern "C" {
[[gnu::used]] inline const char* gpipe_mode_header_only = nullptr;
// NOLINTNEXTLINE(misc-definitions-in-headers)
extern const char* gpipe_is_header_only_in_one_source_and_compiled_in_another
    __attribute__((alias("gpipe_mode_header_only")));
}
#else
// A compiled source refers to the library by a name that lists the compile flags on which bits depend. A library with
// other flags does not define that name.
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
#define GPIPE_LIBRARY_JOINED(a, b, c, d) gpipe_compiled_for_##a##_##b##_##c##_##d
#define GPIPE_LIBRARY_NAMED(a, b, c, d) GPIPE_LIBRARY_JOINED(a, b, c, d)
#define GPIPE_LIBRARY GPIPE_LIBRARY_NAMED(GPIPE_FLAG_VECTORS, GPIPE_FLAG_FMA, GPIPE_FLAG_MATH, GPIPE_FLAG_GEMM)
extern "C" {
extern const char GPIPE_LIBRARY;
#if GPIPE_COMPILED_SOURCE
const char GPIPE_LIBRARY = 0;
#endif
[[gnu::used]] inline const char* gpipe_mode_compiled = &GPIPE_LIBRARY;
// NOLINTNEXTLINE(misc-definitions-in-headers)
extern const char* gpipe_is_header_only_in_one_source_and_compiled_in_another
    __attribute__((alias("gpipe_mode_compiled")));
}
#undef GPIPE_FLAG_VECTORS
#undef GPIPE_FLAG_FMA
#undef GPIPE_FLAG_MATH
#undef GPIPE_FLAG_GEMM
#undef GPIPE_LIBRARY_JOINED
#undef GPIPE_LIBRARY_NAMED
#undef GPIPE_LIBRARY
#endif
#endif
