#pragma once

#include <cstddef>
#include <type_traits>

#include <gpipe/core/config.hpp>
#include <gpipe/core/numbers/multiply_add.hpp>
#include <gpipe/core/tensors/dtype.hpp>
#include <gpipe/core/tensors/lanes.hpp>

// Iterations of a loop in any order may run side by side: no checks for dependences between them.
// clang++ would warn of each loop that it cannot vectorize.
#if defined(__CUDACC__) || defined(__clang__)
#define GPIPE_ANY_ORDER
#define GPIPE_IN_VECTORS
#else
#define GPIPE_ANY_ORDER _Pragma("GCC ivdep")
#define GPIPE_IN_VECTORS _Pragma("GCC ivdep") _Pragma("GCC unroll 1")
#endif

namespace gpipe::host {

// change: the order of a sum; in a row
/// Works on one row. On the host it is one thread with the lanes of its vector registers. A sum always has 16 lanes,
/// on every machine, so that its order is fixed:
///
///     lane l = g(l) + g(l + 16) + g(l + 32) + ...,   then lanes in pairs 8 apart, 4, 2, 1
///
/// Loops run one after the other: a loop may read what the previous one wrote.
struct team {
  static constexpr int lanes = 16;
  /// The bytes of neighbours that a thread computes at once; 1: element by element.
  static constexpr int block_bytes = gpipe::detail::team_block_bytes;

  /// g(i) for i in [0, width), in any order.
  template <class G>
  GPIPE_HOST_DEVICE void each(std::ptrdiff_t width, G g) const {
    GPIPE_ANY_ORDER
    for (std::ptrdiff_t i = 0; i < width; ++i) g(i);
  }

  template <std::ptrdiff_t Width, class G>
  GPIPE_HOST_DEVICE void each(gpipe::detail::constant_width<Width>, G g) const {
    if constexpr (Width >= 4 && Width <= 16) {  // g++ would unroll so few iterations before it looks for vectors
      GPIPE_IN_VECTORS
      for (std::ptrdiff_t i = 0; i < Width; ++i) g(i);
    } else {
      each(Width, g);
    }
  }

  /// The sum of g(i) for i in [0, width), of the type that g returns, or of float for bf16.
  template <class G>
  GPIPE_HOST_DEVICE auto sum(std::ptrdiff_t width, G g) const {
    using value = compute_type<std::remove_cvref_t<decltype(g(width))>>;
    return reduce(width, value(0), g, [](value a, value b) { return a + b; });
  }

  /// The maximum of `initial` and g(i) for i in [0, width). NaN is ignored.
  template <class T, class G>
  GPIPE_HOST_DEVICE T maximum(std::ptrdiff_t width, T initial, G g) const {
    return reduce(width, initial, g, [](T a, T b) { return b > a ? b : a; });
  }

 private:
  // Values first, then the reduction: two plain loops vectorize where one around a long g does not.
  template <class T, class G, class Op>
  GPIPE_HOST_DEVICE static T reduce(std::ptrdiff_t width, T identity, G g, Op op) {
    constexpr std::ptrdiff_t chunk = 8 * lanes;
    alignas(gpipe::detail::alignment) T value[chunk];
    T lane[lanes];
    for (T& l : lane) l = identity;
    for (std::ptrdiff_t first = 0; first < width; first += chunk) {
      const std::ptrdiff_t count = width - first < chunk ? width - first : chunk;
      for (std::ptrdiff_t i = 0; i < count; ++i) value[i] = g(first + i);
      const std::ptrdiff_t whole = (count + lanes - 1) / lanes * lanes;
      for (std::ptrdiff_t i = count; i < whole; ++i) value[i] = identity;
      gpipe::detail::keep_rounded(value);
      for (std::ptrdiff_t i = 0; i < whole; i += lanes)
        for (int l = 0; l < lanes; ++l) lane[l] = op(lane[l], value[i + l]);
    }
    for (int distance = lanes / 2; distance > 0; distance /= 2)
      for (int l = 0; l < distance; ++l) lane[l] = op(lane[l], lane[l + distance]);
    return lane[0];
  }
};

namespace detail {

template <class F>
struct in_double {
  F f;
  GPIPE_HOST_DEVICE double operator()(std::ptrdiff_t i) const { return static_cast<double>(f(i)); }
};
template <class T>
struct add_to {
  static constexpr bool updates = true;  ///< see gpipe::detail::each_element
  const T* source;
  T* target;
  GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const { target[i] = target[i] + source[i]; }
};

template <class T>
struct add_scaled {
  const T* source;
  compute_type<T> scale;
  compute_type<T>* target;
  GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const {
    target[i] = gpipe::detail::multiply_add(compute_type<T>(source[i]), scale, target[i]);
  }
};

}  // namespace detail

}  // namespace gpipe::host

#undef GPIPE_ANY_ORDER
#undef GPIPE_IN_VECTORS
