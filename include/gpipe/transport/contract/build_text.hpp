#pragma once

#include <gpipe/core/error.hpp>
#include <gpipe/version.hpp>

#include <string>

namespace gpipe::detail {

/// The properties of this build on which bits and messages depend. All processes of a job must have the same.
GPIPE_COLD inline std::string build_text() {
  std::string text = concat({"gpipe ", version.major, ".", version.minor, ".", version.patch, " by "});
#if !defined(__clang__)
  text += "g++ ";
#endif
  text += __VERSION__;
#if defined(__AVX512F__)
  text += ", AVX-512";
#elif defined(__AVX2__)
  text += ", AVX2";
#endif
#if defined(__FMA__)
  text += ", FMA";
#endif
#if defined(__FAST_MATH__)
  text += ", fast math";
#endif
#if GPIPE_WITH_LIBXSMM
  text += ", libxsmm";
#endif
#if defined(__OPTIMIZE__)
  text += ", optimized";
#else
  text += ", not optimized";
#endif
  return text + concat({", ", 8 * sizeof(void*), " bits"});
}

}  // namespace gpipe::detail
