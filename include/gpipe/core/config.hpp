#pragma once

#if __cplusplus < 202002L
#error "gpipe needs C++20: compile with -std=c++20 (CMake before 3.26 leaves nvcc at C++17; gpipe::gpipe mends it)"
#endif

#include <cstddef>

#include <gpipe/core/build_mode.hpp>

/// Marks what runs on host and device alike, such as the functors of a layer's kernels.
#ifdef __CUDACC__
#define GPIPE_HOST_DEVICE __host__ __device__
#else
#define GPIPE_HOST_DEVICE
#endif

/// Keeps a kernel in one piece: inlined into different callers, or cloned for a constant argument,
/// the same text may contract to different fused multiply-adds and so give different bits. Where registers of 512 bits
/// are there, loops use them whole, as matrix products do: g++ would take halves.
#if defined(__clang__)
#define GPIPE_OUT_OF_LINE __attribute__((noinline))
#elif defined(__AVX512F__) && !defined(__CUDACC__)
#define GPIPE_OUT_OF_LINE __attribute__((noinline, noclone, target("prefer-vector-width=512")))
#else
#define GPIPE_OUT_OF_LINE __attribute__((noinline, noclone))
#endif

/// Keeps what runs once, or for no time worth naming, such as set-up, reports and the text of errors, out of line and
/// small: it compiles in half the time. (Not `cold`: compilers take for cold whatever calls such a function, too.)
#if defined(__clang__)
#define GPIPE_COLD __attribute__((noinline, minsize))
#elif defined(__CUDACC__) || !defined(__OPTIMIZE__)
#define GPIPE_COLD __attribute__((noinline))
#else
#define GPIPE_COLD __attribute__((noinline, optimize("Os")))
#endif

/// With -D GPIPE_CANARY=1 every training poisons buffers when they die: see `run_options::canary`.
#ifndef GPIPE_CANARY
#define GPIPE_CANARY 0
#endif

/// Pipeline-parallel training of neural networks: layers make a model, a model a plan, and a trainer runs it. Parts of
/// a device or a transport have namespaces of their own; what is in `detail` and `broken` is nobody's interface.
namespace gpipe {

/// Every buffer starts on such a boundary (bytes): a cache line, and the widest vector register.
inline constexpr std::size_t alignment = 64;

/// `bytes` rounded up to the next boundary.
constexpr std::size_t aligned(std::size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

}  // namespace gpipe
