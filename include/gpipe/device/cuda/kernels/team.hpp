#pragma once

#include <cstddef>
#include <type_traits>

#include <gpipe/core/tensors/dtype.hpp>

namespace gpipe::cuda {

/// Works on one row: a block of 256 threads, each of which runs the whole functor. The width of a loop is the same for
/// all of them. Element i always belongs to thread i mod 256, so that a thread's own arrays serve in every loop, and
/// the order of a sum is fixed:
///
///     thread t = g(t) + g(t + 256) + ...,   then a warp's threads in pairs 16 apart, 8, 4, 2, 1,   then warps in order
///
/// Loops run one after the other: a loop may read what the previous one wrote.
struct team {
  static constexpr int threads = 256, warp = 32;
  static constexpr int block_bytes = 1;  ///< element by element: see host::team

  template <class G>
  __device__ void each(std::ptrdiff_t width, G g) const {
    for (std::ptrdiff_t i = threadIdx.x; i < width; i += threads) g(i);
    __syncthreads();
  }

  template <class G>
  __device__ auto sum(std::ptrdiff_t width, G g) const {
    using value = compute_type<std::remove_cvref_t<decltype(g(width))>>;
    return reduce(width, value(0), g, [](value a, value b) { return a + b; });
  }

  template <class T, class G>
  __device__ T maximum(std::ptrdiff_t width, T initial, G g) const {
    return reduce(width, initial, g, [](T a, T b) { return b > a ? b : a; });
  }

 private:
  template <class T, class G, class Op>
  __device__ static T reduce(std::ptrdiff_t width, T identity, G g, Op op) {
    __shared__ T of_warp[threads / warp];
    T partial = identity;
    for (std::ptrdiff_t i = threadIdx.x; i < width; i += threads) partial = op(partial, g(i));
    for (int apart = warp / 2; apart > 0; apart /= 2)
      partial = op(partial, __shfl_xor_sync(0xffffffffu, partial, apart));
    if (threadIdx.x % warp == 0) of_warp[threadIdx.x / warp] = partial;
    __syncthreads();
    T all = of_warp[0];
    for (int w = 1; w < threads / warp; ++w) all = op(all, of_warp[w]);
    __syncthreads();  // the next reduction reuses of_warp
    return all;
  }
};

/// The same for a narrow row: a warp, which waits for no other warp. Element i belongs to thread i mod 32, and a sum is
///
///     thread t = g(t) + g(t + 32) + ...,   then threads in pairs 16 apart, 8, 4, 2, 1
struct warp_team {
  static constexpr int threads = team::warp;
  static constexpr int block_bytes = team::block_bytes;
  /// The widest row: wider ones need more threads to be fast.
  static constexpr std::ptrdiff_t max_width = 1024;

  template <class G>
  __device__ void each(std::ptrdiff_t width, G g) const {
    for (std::ptrdiff_t i = threadIdx.x % threads; i < width; i += threads) g(i);
    __syncwarp();
  }

  template <class G>
  __device__ auto sum(std::ptrdiff_t width, G g) const {
    using value = compute_type<std::remove_cvref_t<decltype(g(width))>>;
    return reduce(width, value(0), g, [](value a, value b) { return a + b; });
  }

  template <class T, class G>
  __device__ T maximum(std::ptrdiff_t width, T initial, G g) const {
    return reduce(width, initial, g, [](T a, T b) { return b > a ? b : a; });
  }

 private:
  template <class T, class G, class Op>
  __device__ static T reduce(std::ptrdiff_t width, T identity, G g, Op op) {
    T partial = identity;
    for (std::ptrdiff_t i = threadIdx.x % threads; i < width; i += threads) partial = op(partial, g(i));
    for (int apart = threads / 2; apart > 0; apart /= 2)
      partial = op(partial, __shfl_xor_sync(0xffffffffu, partial, apart));
    return partial;
  }
};

}  // namespace gpipe::cuda
