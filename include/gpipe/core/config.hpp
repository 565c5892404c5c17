#pragma once

#if __cplusplus < 202002L
#error "gpipe needs C++20: compile with -std=c++20 (for nvcc with CMake before 3.26, link gpipe::gpipe)"
#endif

#ifdef Index
#error "gpipe: <complex.h> defines I as a macro, which is a name here: include gpipe before it, or #undef I"
#endif

#include <cstddef>

#include <gpipe/core/build_mode.hpp>

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

}  // namespace gpipe::detail
