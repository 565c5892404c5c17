#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <gpipe/core/config.hpp>
#include <gpipe/cuda/kernels/team.hpp>
#include <gpipe/cuda/kernels/vectors.hpp>

namespace gpipe::cuda::detail {

// Functions of elements, whose arrays are read and written 16 bytes at a time. A thread copies neighbours into
// registers, calls the function for these, and copies the results back.

/// The elements that a thread computes at a time: 16 bytes of the smallest type.
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

/// Whether a function also reads the arrays that it writes: such a function has a constant `updates`.
template <class F>
inline constexpr bool updates_arrays = requires {
  requires F::updates;
};

template <bool Updates, class Pointer, class Neighbours>
__device__ void load(std::ptrdiff_t vector, Pointer source, Neighbours& registers) {
  if constexpr (Updates || std::is_const_v<std::remove_pointer_t<Pointer>>)
    if (source != nullptr) registers = reinterpret_cast<const Neighbours*>(source)[vector];
}
template <class Pointer, class Neighbours>
__device__ void store(std::ptrdiff_t vector, const Neighbours& registers, Pointer target) {
  if constexpr (!std::is_const_v<std::remove_pointer_t<Pointer>>)
    if (target != nullptr) reinterpret_cast<Neighbours*>(target)[vector] = registers;
}

template <class F, class... Pointers>
struct on_neighbours {
  static constexpr int N = neighbours_in<Pointers...>;

  __device__ static void run(std::ptrdiff_t vector, Pointers... array, neighbours<pointed<Pointers>, N>... registers) {
    (load<updates_arrays<F>>(vector, array, registers), ...);
    const F f{registers.value...};
    _Pragma("unroll") for (int k = 0; k < N; ++k) f(k);
    (store(vector, registers, array), ...);
  }
};

/// f(i) for i in [0, n): first `vectors` times as many as a thread computes at a time, then the remainder one by one.
template <class F>
__global__ void __launch_bounds__(team::threads) over_elements(std::ptrdiff_t n, std::ptrdiff_t vectors, F f) {
  const std::ptrdiff_t first = std::ptrdiff_t{blockIdx.x} * team::threads + threadIdx.x;
  const std::ptrdiff_t stride = std::ptrdiff_t{gridDim.x} * team::threads;
  const std::ptrdiff_t done = with_arrays(f, [=](auto*... array) {
    using several = on_neighbours<F, decltype(array)...>;
    for (std::ptrdiff_t vector = first; vector < vectors; vector += stride)
      several::run(vector, array..., neighbours<pointed<decltype(array)>, several::N>{}...);
    return vectors * several::N;
  });
  _Pragma("unroll 1") for (std::ptrdiff_t i = done + first; i < n; i += stride) f(i);
}

/// rule(i) for i in [0, n), of an optimizer with this number of moments whose arrays are the rule's member `of`: first
/// `vectors` times on neighbours, then the remainder one by one.
template <int Moments, class Rule>
__global__ void __launch_bounds__(team::threads) over_parameters(std::ptrdiff_t n, std::ptrdiff_t vectors, Rule rule) {
  using T = std::remove_pointer_t<decltype(rule.of.parameter)>;
  constexpr int N = vector_elements<T*>;
  const std::ptrdiff_t first = std::ptrdiff_t{blockIdx.x} * team::threads + threadIdx.x;
  const std::ptrdiff_t stride = std::ptrdiff_t{gridDim.x} * team::threads;
  _Pragma("unroll 1") for (std::ptrdiff_t vector = first; vector < vectors; vector += stride) {
    const std::ptrdiff_t offset = vector * N;
    vector_of_numbers<T, N> parameter, gradient, moment[Moments + 1];
    Rule local = rule;
    parameter.load(rule.of.parameter + offset), gradient.load(rule.of.gradient + offset);
    local.of.parameter = parameter.number, local.of.gradient = gradient.number;
    _Pragma("unroll") for (int m = 0; m < Moments; ++m) {
      moment[m].load(rule.of.moment[m] + offset);
      local.of.moment[m] = moment[m].number;
    }
    _Pragma("unroll") for (int k = 0; k < N; ++k) local(k);
    parameter.store(rule.of.parameter + offset);
    _Pragma("unroll") for (int m = 0; m < Moments; ++m) moment[m].store(rule.of.moment[m] + offset);
  }
  _Pragma("unroll 1") for (std::ptrdiff_t i = vectors * N + first; i < n; i += stride) rule(i);
}

/// The number of times that over_parameters runs a rule on neighbours.
template <int Moments, class Rule>
std::ptrdiff_t whole_vectors_of_parameters(std::ptrdiff_t n, const Rule& rule) {
  const auto aligned = [](const void* address) {
    return reinterpret_cast<std::uintptr_t>(address) % vector_bytes == 0;
  };
  bool all_aligned = aligned(rule.of.parameter) && aligned(rule.of.gradient);
  for (int m = 0; m < Moments; ++m) all_aligned = all_aligned && aligned(rule.of.moment[m]);
  return all_aligned ? n / vector_elements<decltype(rule.of.parameter)> : 0;
}

/// The number of vectors of neighbours in n elements of the arrays: 0 if an array is not aligned to 16 bytes.
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
