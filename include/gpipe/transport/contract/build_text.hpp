#pragma once

#include <gpipe/core/concat.hpp>
#include <gpipe/version.hpp>

#include <string>

namespace gpipe::detail {

/// How this program was built, as far as bits and messages depend on it: all processes of a job have the same.
GPIPE_COLD inline std::string build_text() {
  return concat({
    "gpipe ", version.major, ".", version.minor, ".", version.patch,
#if defined(__clang__)
        " by " __VERSION__
#else
        " by g++ " __VERSION__
#endif
#if defined(__AVX512F__)
        ", AVX-512"
#elif defined(__AVX2__)
        ", AVX2"
#endif
#if defined(__FMA__)
        ", FMA"
#endif
#if defined(__FAST_MATH__)
        ", fast math"
#endif
#if GPIPE_WITH_LIBXSMM
        ", libxsmm"
#endif
#if defined(__OPTIMIZE__)
        ", optimized"
#else
        ", not optimized"
#endif
        ,
        ", ", 8 * sizeof(void*), " bits"
  });
}

}  // namespace gpipe::detail
