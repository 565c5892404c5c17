#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <gpipe/core/config.hpp>
#include <gpipe/cuda/kernels/team.hpp>
#include <gpipe/cuda/kernels/vectors.hpp>

namespace gpipe::cuda::detail {

// Functions of elements, whose arrays are read and written 16 bytes at once. A thread copies neighbours into registers,
// calls the function for these, and copies the results back.

/// The elements that a thread computes at once: 16 bytes of the smallest.
template <class... Pointers>
inline constexpr int neighbours_in = vector_bytes / (std::min)({static_cast<int>(sizeof(pointed<Pointers>))...});

struct any_pointer {
  template <class T>
  GPIPE_HOST_DEVICE operator T*() const;
};

/// use(f's members), which are two to four pointers.
template <class F, class Use>
GPIPE_HOST_DEVICE auto with_arrays(const F& f, Use use) {
  using any = any_pointer;
  static_assert(!requires { F{any{}, any{}, any{}, any{}, any{}}; });
  if constexpr (requires { F{any{}, any{}, any{}, any{}}; }) {
    auto [a, b, c, d] = f;
    return use(a, b, c, d);
  } else if constexpr (requires { F{any{}, any{}, any{}}; }) {
    auto [a, b, c] = f;
    return use(a, b, c);
  } else {
    auto [a, b] = f;
    return use(a, b);
  }
}

/// Whether a function reads the arrays that it writes, too: it then has a constant `updates`.
template <class F>
inline constexpr bool updates_arrays = requires {
  requires F::updates;
};

template <bool Updates, class Pointer, class Neighbours>
__device__ void load(std::ptrdiff_t which, Pointer from, Neighbours& into) {
  if constexpr (Updates || std::is_const_v<std::remove_pointer_t<Pointer>>)
    if (from != nullptr) into = reinterpret_cast<const Neighbours*>(from)[which];
}
template <class Pointer, class Neighbours>
__device__ void store(std::ptrdiff_t which, const Neighbours& from, Pointer into) {
  if constexpr (!std::is_const_v<std::remove_pointer_t<Pointer>>)
    if (into != nullptr) reinterpret_cast<Neighbours*>(into)[which] = from;
}

template <class F, class... Pointers>
struct on_neighbours {
  static constexpr int N = neighbours_in<Pointers...>;

  __device__ static void run(std::ptrdiff_t which, Pointers... array, neighbours<pointed<Pointers>, N>... registers) {
    (load<updates_arrays<F>>(which, array, registers), ...);
    const F f{registers.at...};
    _Pragma("unroll") for (int k = 0; k < N; ++k) f(k);
    (store(which, registers, array), ...);
  }
};

/// f(i) for i in [0, n): first `vectors` times as many as a thread computes at once, then the rest one by one.
template <class F>
__global__ void __launch_bounds__(team::threads) over_elements(std::ptrdiff_t n, std::ptrdiff_t vectors, F f) {
  const std::ptrdiff_t first = std::ptrdiff_t{blockIdx.x} * team::threads + threadIdx.x;
  const std::ptrdiff_t apart = std::ptrdiff_t{gridDim.x} * team::threads;
  const std::ptrdiff_t done = with_arrays(f, [=](auto*... array) {
    using several = on_neighbours<F, decltype(array)...>;
    for (std::ptrdiff_t which = first; which < vectors; which += apart)
      several::run(which, array..., neighbours<pointed<decltype(array)>, several::N>{}...);
    return vectors * several::N;
  });
  _Pragma("unroll 1") for (std::ptrdiff_t i = done + first; i < n; i += apart) f(i);
}

/// rule(i) for i in [0, n), of an optimizer with this number of moments whose arrays are the rule's member `of`: first
/// `vectors` times on neighbours, then the rest one by one.
template <int Moments, class Rule>
__global__ void __launch_bounds__(team::threads) over_parameters(std::ptrdiff_t n, std::ptrdiff_t vectors, Rule rule) {
  using T = std::remove_pointer_t<decltype(rule.of.parameter)>;
  constexpr int N = vector_elements<T*>;
  const std::ptrdiff_t first = std::ptrdiff_t{blockIdx.x} * team::threads + threadIdx.x;
  const std::ptrdiff_t apart = std::ptrdiff_t{gridDim.x} * team::threads;
  _Pragma("unroll 1") for (std::ptrdiff_t which = first; which < vectors; which += apart) {
    const std::ptrdiff_t at = which * N;
    vector_of_numbers<T, N> parameter, gradient, moment[Moments + 1];
    Rule here = rule;
    parameter.load(rule.of.parameter + at), gradient.load(rule.of.gradient + at);
    here.of.parameter = parameter.at, here.of.gradient = gradient.at;
    _Pragma("unroll") for (int m = 0; m < Moments; ++m) {
      moment[m].load(rule.of.moment[m] + at);
      here.of.moment[m] = moment[m].at;
    }
    _Pragma("unroll") for (int k = 0; k < N; ++k) here(k);
    parameter.store(rule.of.parameter + at);
    _Pragma("unroll") for (int m = 0; m < Moments; ++m) moment[m].store(rule.of.moment[m] + at);
  }
  _Pragma("unroll 1") for (std::ptrdiff_t i = vectors * N + first; i < n; i += apart) rule(i);
}

/// The number of times that such a rule runs on neighbours.
template <int Moments, class Rule>
std::ptrdiff_t whole_vectors_of_parameters(std::ptrdiff_t n, const Rule& rule) {
  const auto aligned = [](const void* at) { return reinterpret_cast<std::uintptr_t>(at) % vector_bytes == 0; };
  bool all = aligned(rule.of.parameter) && aligned(rule.of.gradient);
  for (int m = 0; m < Moments; ++m) all = all && aligned(rule.of.moment[m]);
  return all ? n / vector_elements<decltype(rule.of.parameter)> : 0;
}

/// Of n elements of arrays, the number of times that a thread computes neighbours: none if an array begins where 16
/// bytes cannot be loaded at once.
struct vectors_of_arrays {
  std::ptrdiff_t n;
  template <class... T>
  GPIPE_HOST_DEVICE std::ptrdiff_t operator()(T*... array) const {
    const bool aligned = ((reinterpret_cast<std::uintptr_t>(array) % vector_bytes == 0) && ...);
    return aligned ? n / neighbours_in<T*...> : 0;
  }
};
template <class F>
std::ptrdiff_t whole_vectors(std::ptrdiff_t n, const F& f) {
  return with_arrays(f, vectors_of_arrays{n});
}

}  // namespace gpipe::cuda::detail
