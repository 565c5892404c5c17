#pragma once

/// 0: every source compiles all that it uses (header-only, the default). 1: the part that does not depend on a model is
/// compiled once, in include/gpipe/compiled.cpp. All sources of a program use the same value.
#ifndef GPIPE_COMPILED
#define GPIPE_COMPILED 0
#endif

/// 1 in compiled.cpp alone.
#ifndef GPIPE_COMPILED_SOURCE
#define GPIPE_COMPILED_SOURCE 0
#endif

/// 1 if this source compiles the bodies of functions that compiled.cpp holds, which are marked GPIPE_INLINE.
#define GPIPE_BODIES (!GPIPE_COMPILED || GPIPE_COMPILED_SOURCE)
#if GPIPE_COMPILED
#define GPIPE_INLINE
#else
#define GPIPE_INLINE inline
#endif

// Two sources of different modes do not link. Every source defines one symbol, as an alias of a variable that each mode
// names differently. Linkers merge the definitions of one mode, and report a duplicate symbol if there are two modes.
//
// A compiled source also asks for the library by a name that lists the compile flags which change bits, so a library
// with other flags does not link: its symbol is undefined.
#if defined(__ELF__) && !defined(__CUDA_ARCH__)
#if defined(__AVX512F__)
#define GPIPE_VECTORS avx512
#elif defined(__AVX2__)
#define GPIPE_VECTORS avx2
#elif defined(__AVX__)
#define GPIPE_VECTORS avx
#else
#define GPIPE_VECTORS baseline
#endif
#if defined(__FMA__)
#define GPIPE_FUSES fma
#else
#define GPIPE_FUSES no_fma
#endif
#if defined(__FAST_MATH__)
#define GPIPE_ROUNDS fast_math
#else
#define GPIPE_ROUNDS exact_math
#endif
#if GPIPE_WITH_LIBXSMM
#define GPIPE_MULTIPLIES libxsmm
#else
#define GPIPE_MULTIPLIES no_libxsmm
#endif
#define GPIPE_JOIN_4(a, b, c, d) gpipe_compiled_for_##a##_##b##_##c##_##d
#define GPIPE_LIBRARY_NAME(a, b, c, d) GPIPE_JOIN_4(a, b, c, d)

extern "C" {
#if GPIPE_COMPILED
#if GPIPE_COMPILED_SOURCE
extern const char GPIPE_LIBRARY_NAME(GPIPE_VECTORS, GPIPE_FUSES, GPIPE_ROUNDS, GPIPE_MULTIPLIES);
const char GPIPE_LIBRARY_NAME(GPIPE_VECTORS, GPIPE_FUSES, GPIPE_ROUNDS, GPIPE_MULTIPLIES) = 1;
#else
extern const char GPIPE_LIBRARY_NAME(GPIPE_VECTORS, GPIPE_FUSES, GPIPE_ROUNDS, GPIPE_MULTIPLIES);
#endif
[[gnu::used]] inline const char* gpipe_mode_compiled =
    &GPIPE_LIBRARY_NAME(GPIPE_VECTORS, GPIPE_FUSES, GPIPE_ROUNDS, GPIPE_MULTIPLIES);
extern const char* gpipe_is_header_only_in_one_source_and_compiled_in_another
    __attribute__((alias("gpipe_mode_compiled")));
#else
[[gnu::used]] inline const char* gpipe_mode_header_only = nullptr;
extern const char* gpipe_is_header_only_in_one_source_and_compiled_in_another
    __attribute__((alias("gpipe_mode_header_only")));
#endif
}
#endif
