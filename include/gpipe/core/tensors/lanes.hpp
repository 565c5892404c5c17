#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <gpipe/core/numbers/multiply_add.hpp>
#include <gpipe/core/tensors/dtype.hpp>

namespace gpipe::detail {

/// The bytes of a register of the machine that the program is compiled for.
#if defined(__AVX512F__)
inline constexpr int vector_bytes = 64;
#elif defined(__AVX__)
inline constexpr int vector_bytes = 32;
#else
inline constexpr int vector_bytes = 16;
#endif

/// The bytes of neighbours that a team of the host computes at once; 1: element by element, because nvcc reads no
/// vectors.
#ifdef __CUDACC__
inline constexpr int team_block_bytes = 1;
#else
inline constexpr int team_block_bytes = vector_bytes;
#endif

// Vectors of the compilers. A vector in memory may begin at any element.
template <class T, int N>
struct vector_type {
  static constexpr int lanes = N + N % 2;  // 3 take a vector of 4
  using type [[gnu::vector_size(lanes * sizeof(T))]] = T;
  using in_memory [[gnu::vector_size(lanes * sizeof(T)), gnu::aligned(alignof(T)), gnu::may_alias]] = T;
};
template <class T>
struct vector_type<T, 1> {
  using type = T;
  using in_memory [[gnu::aligned(1), gnu::may_alias]] = T;
};

/// N > 1 neighbours of a tensor with elements T, computed at once: numbers of type float or double, in a vector
/// register of the host. Operators work lane by lane; `a < b ? c : d` chooses in each lane.
template <class T, int N>
struct lanes {
  using number = compute_type<T>;
  using type = typename vector_type<number, N>::type;
  using integer = std::conditional_t<sizeof(number) == 8, std::int64_t, std::int32_t>;
  using integers = typename vector_type<integer, N>::type;  ///< as wide as the numbers

  static type load(const T* source) {
    if constexpr (N == 3) {
#ifndef __CUDACC__
      if constexpr (std::is_same_v<T, float>) {
        using pairs [[gnu::vector_size(16)]] = double;
        pairs two{};
        two[0] = *reinterpret_cast<const typename vector_type<double, 1>::in_memory*>(source);
        type three = reinterpret_cast<type>(two);
        three[2] = source[2];
        return three;
      }
#endif
      return type{source[0], source[1], source[2]};
    } else if constexpr (std::is_same_v<T, number>) {
      return *reinterpret_cast<const typename vector_type<T, N>::in_memory*>(source);
    } else {
      using words = typename vector_type<std::uint32_t, N>::type;
      return reinterpret_cast<type>(of_integers<std::uint16_t, words>(reinterpret_cast<const std::uint16_t*>(source))
                                    << 16);
    }
  }
  static void store(type value, T* target) {
    if constexpr (N > 3 && std::is_same_v<T, number>)
      *reinterpret_cast<typename vector_type<T, N>::in_memory*>(target) = value;
    else
      for (int lane = 0; lane < N; ++lane) target[lane] = value[lane];
  }
  /// The numbers that `load` finds after `store`.
  static type rounded(type value) {
    if constexpr (!std::is_same_v<T, number>) {
      T stored[std::size_t{N}];
      store(value, stored);
      return load(stored);
    }
    return value;
  }

  static integers load_bytes(const std::uint8_t* source) { return of_integers<std::uint8_t, integers>(source); }
  static void store_bytes(integers value, std::uint8_t* target) {
    if constexpr (N == 3)
      for (int lane = 0; lane < N; ++lane) target[lane] = static_cast<std::uint8_t>(value[lane]);
    else
      *reinterpret_cast<typename vector_type<std::uint8_t, N>::in_memory*>(target) =
          __builtin_convertvector(value, typename vector_type<std::uint8_t, N>::type);
  }

  /// The same number in every lane.
  static type repeat(number value) { return value - type{}; }  // not a sum, which would change -0

  /// a * b + c in every lane, with the bits of `multiply_add`. The builtins are used directly, because <immintrin.h>
  /// takes as long to compile as half of the library.
  [[gnu::always_inline]] static inline type multiply_add(type a, type b, type c) {
#if defined(__FMA__) && !defined(__CUDACC__)
#if __has_builtin(__builtin_elementwise_fma)  // clang 17 and newer; clang 22 removed the others
    if constexpr (sizeof(type) >= 16) return __builtin_elementwise_fma(a, b, c);
#else
    constexpr bool is_float = std::is_same_v<number, float>;
#if defined(__AVX512F__)
    constexpr int as_the_environment_rounds = 4;
    constexpr std::conditional_t<is_float, unsigned short, unsigned char> all_lanes = is_float ? 0xffff : 0xff;
    if constexpr (sizeof(type) == 64) {
      if constexpr (is_float) return __builtin_ia32_vfmaddps512_mask(a, b, c, all_lanes, as_the_environment_rounds);
      else return __builtin_ia32_vfmaddpd512_mask(a, b, c, all_lanes, as_the_environment_rounds);
    }
#endif
    if constexpr (sizeof(type) == 32) {
      if constexpr (is_float) return __builtin_ia32_vfmaddps256(a, b, c);
      else return __builtin_ia32_vfmaddpd256(a, b, c);
    } else if constexpr (sizeof(type) == 16) {
      if constexpr (is_float) return __builtin_ia32_vfmaddps(a, b, c);
      else return __builtin_ia32_vfmaddpd(a, b, c);
    }
#endif
#endif
    for (int lane = 0; lane < N; ++lane) a[lane] = detail::multiply_add(a[lane], b[lane], c[lane]);
    return a;
  }

 private:
  // g++ 12 compiles most such conversions element by element.
  template <class From, class Into>
  static Into of_integers(const From* source) {
#if !defined(__clang__) && !defined(__CUDACC__)
    using narrow[[ maybe_unused, gnu::vector_size((sizeof(From) == 2 && N == 16 ? 32 : 16)) ]] =
        std::conditional_t<sizeof(From) == 1, char, short>;
#ifdef __AVX512F__
    if constexpr (N == 16) {
      using wide [[gnu::vector_size(64)]] = int;
      constexpr unsigned short all_lanes = 0xffff;
      const auto value =
          reinterpret_cast<narrow>(*reinterpret_cast<const typename vector_type<From, N>::in_memory*>(source));
      if constexpr (sizeof(From) == 1)
        return reinterpret_cast<Into>(__builtin_ia32_pmovzxbd512_mask(value, wide{}, all_lanes));
      else return reinterpret_cast<Into>(__builtin_ia32_pmovzxwd512_mask(value, wide{}, all_lanes));
    }
#endif
#ifdef __AVX2__
    if constexpr (N == 8 && sizeof(number) == 4) {
      if constexpr (sizeof(From) == 1) {
        using halves [[gnu::vector_size(16)]] = long long;
        const halves half{*reinterpret_cast<const typename vector_type<long long, 1>::in_memory*>(source), 0};
        return reinterpret_cast<Into>(__builtin_ia32_pmovzxbd256(reinterpret_cast<narrow>(half)));
      } else {
        return reinterpret_cast<Into>(__builtin_ia32_pmovzxwd256(
            reinterpret_cast<narrow>(*reinterpret_cast<const typename vector_type<From, N>::in_memory*>(source))));
      }
    }
#endif
#endif
    Into wide{};
    for (int lane = 0; lane < N; ++lane) wide[lane] = source[lane];
    return wide;
  }
};

/// One element: the same calls without a vector, also for a GPU.
template <class T>
struct lanes<T, 1> {
  using number = compute_type<T>;
  using type = number;
  using integer = std::conditional_t<sizeof(number) == 8, std::int64_t, std::int32_t>;
  using integers = integer;

  GPIPE_HOST_DEVICE static type load(const T* source) { return *source; }
  GPIPE_HOST_DEVICE static void store(type value, T* target) { *target = value; }
  GPIPE_HOST_DEVICE static type rounded(type value) { return static_cast<T>(value); }
  GPIPE_HOST_DEVICE static integers load_bytes(const std::uint8_t* source) { return *source; }
  GPIPE_HOST_DEVICE static void store_bytes(integers value, std::uint8_t* target) {
    *target = static_cast<std::uint8_t>(value);
  }
  GPIPE_HOST_DEVICE static type repeat(number value) { return value; }
  GPIPE_HOST_DEVICE static type multiply_add(type a, type b, type c) { return detail::multiply_add(a, b, c); }
};

/// A number of lanes that is a constant. (`std::integral_constant` converts on the host alone.)
template <std::ptrdiff_t Width>
struct constant_width {
  GPIPE_HOST_DEVICE constexpr operator std::ptrdiff_t() const { return Width; }  // NOLINT(google-explicit-constructor)
};

/// Calls f(lanes) for loops over `width` elements of type T in blocks of that number of lanes. A GPU has a thread for
/// each element.
template <class T, class Team, class F>
GPIPE_HOST_DEVICE void with_lanes(const Team&, std::ptrdiff_t width, F f) {
  constexpr int max = Team::block_bytes / static_cast<int>(sizeof(compute_type<T>));
  if constexpr (max > 1) {
    if (width >= max) return f(constant_width<max>{});
    if constexpr (max > 8)
      if (width >= 8) return f(constant_width<8>{});
    if constexpr (max > 4)
      if (width >= 4) return f(constant_width<4>{});
    if constexpr (max >= 4)
      if (width == 3) return f(constant_width<3>{});
  }
  f(constant_width<1>{});
}

/// Calls f(n) for n in [1, Most], with a constant for 1, 2 and Most.
template <int Most, class F>
GPIPE_INLINED GPIPE_HOST_DEVICE inline void with_small_count(int n, F f) {
  if constexpr (Most <= 2) {
    if (n == Most) f(constant_width<Most>{});
    else f(constant_width<1>{});
  } else {
    if (n == 1) f(constant_width<1>{});
    else if (n == 2) f(constant_width<2>{});
    else if (n == Most) f(constant_width<Most>{});
    else f(n);
  }
}

/// f(i) for blocks of elements i, i + 1, ..., i + lanes - 1 that cover [0, width). The last block may begin inside the
/// one before it, so f reads nothing that it writes.
///
///     20 elements, lanes 16:   0 ... 15,  4 ... 19
template <class Team, std::ptrdiff_t Lanes, class F>
GPIPE_INLINED GPIPE_HOST_DEVICE inline void in_blocks(const Team& team, std::ptrdiff_t width, constant_width<Lanes>,
                                                      F f) {
  if constexpr (Lanes == 1) {
    team.each(width, f);
  } else {
    for (std::ptrdiff_t first = 0; first < width; first += Lanes) f(first + Lanes < width ? first : width - Lanes);
  }
}

}  // namespace gpipe::detail
