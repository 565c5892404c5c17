#pragma once

#include <cstddef>
#include <type_traits>

#include <gpipe/core/tensors/array_function.hpp>
#include <gpipe/core/tensors/dtype.hpp>
#include <gpipe/cuda/kernels/vectors.hpp>

namespace gpipe::cuda {

// change: the order of a sum; in a row
/// Works on one row: a block of 256 threads, each of which runs the whole functor. The width of a loop is the same for
/// all threads. Element i always belongs to thread i mod 256, so that local arrays keep their elements from loop to
/// loop, and the order of a sum is fixed:
///
///     thread t = g(t) + g(t + 256) + ...,   then a warp's threads in pairs 16 apart, 8, 4, 2, 1,   then warps in order
///
/// A gpipe::detail::array_function has another fixed order: a thread reads and writes 16 bytes of neighbours at a time
/// (see detail::reduce_arrays). Loops run one after the other: a loop may read the results of the previous one.
struct team {
  static constexpr int threads = 256, warp = 32;
  static constexpr int block_bytes = 1;  ///< element by element: see host::team

  template <class G>
  __device__ void each(std::ptrdiff_t width, G g) const {
    if constexpr (gpipe::detail::is_array_function<G>)
      g.with_arrays([width](auto f, auto... array) { detail::write_arrays<threads>(width, f, array...); });
    else
      for (std::ptrdiff_t i = threadIdx.x; i < width; i += threads) g(i);
    __syncthreads();
  }

  template <class G>
  __device__ auto sum(std::ptrdiff_t width, G g) const {
    using value = compute_type<std::remove_cvref_t<decltype(g(width))>>;
    return reduce(width, value(0), g, detail::add_numbers());
  }

  template <class T, class G>
  __device__ T maximum(std::ptrdiff_t width, T initial, G g) const {
    return reduce(width, initial, g, detail::larger_number());
  }

 private:
  template <class T, class G, class Op>
  __device__ static T reduce(std::ptrdiff_t width, T identity, G g, Op op) {
    if constexpr (gpipe::detail::is_array_function<G>) {
      return g.with_arrays([width, identity, op](auto f, auto... array) {
        return detail::reduce_arrays<threads>(width, identity, op, f, array...);
      });
    } else {
      T partial = identity;
      for (std::ptrdiff_t i = threadIdx.x; i < width; i += threads) partial = op(partial, g(i));
      for (int distance = warp / 2; distance > 0; distance /= 2)
        partial = op(partial, __shfl_xor_sync(0xffffffffu, partial, distance));
      return detail::join_warps<threads>(partial, op);
    }
  }
};

/// The same for a narrow row: one warp, which waits for no other. Element i belongs to thread i mod 32, and a sum is
///
///     thread t = g(t) + g(t + 32) + ...,   then threads in pairs 16 apart, 8, 4, 2, 1
struct warp_team {
  static constexpr int threads = team::warp;
  static constexpr int block_bytes = team::block_bytes;
  /// The widest row: wider ones need more threads to be fast.
  static constexpr std::ptrdiff_t max_width = 1024;

  template <class G>
  __device__ void each(std::ptrdiff_t width, G g) const {
    if constexpr (gpipe::detail::is_array_function<G>)
      g.with_arrays([width](auto f, auto... array) { detail::write_arrays<threads>(width, f, array...); });
    else
      for (std::ptrdiff_t i = threadIdx.x % threads; i < width; i += threads) g(i);
    __syncwarp();
  }

  template <class G>
  __device__ auto sum(std::ptrdiff_t width, G g) const {
    using value = compute_type<std::remove_cvref_t<decltype(g(width))>>;
    return reduce(width, value(0), g, detail::add_numbers());
  }

  template <class T, class G>
  __device__ T maximum(std::ptrdiff_t width, T initial, G g) const {
    return reduce(width, initial, g, detail::larger_number());
  }

 private:
  template <class T, class G, class Op>
  __device__ static T reduce(std::ptrdiff_t width, T identity, G g, Op op) {
    if constexpr (gpipe::detail::is_array_function<G>) {
      return g.with_arrays([width, identity, op](auto f, auto... array) {
        return detail::reduce_arrays<threads>(width, identity, op, f, array...);
      });
    } else {
      T partial = identity;
      for (std::ptrdiff_t i = threadIdx.x % threads; i < width; i += threads) partial = op(partial, g(i));
      for (int distance = threads / 2; distance > 0; distance /= 2)
        partial = op(partial, __shfl_xor_sync(0xffffffffu, partial, distance));
      return partial;
    }
  }
};

}  // namespace gpipe::cuda
