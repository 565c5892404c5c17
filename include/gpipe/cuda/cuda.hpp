#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include <gpipe/cuda/context.hpp>
#include <gpipe/cuda/stream/gpu.hpp>
#include <gpipe/device/contract/kernels.hpp>
#include <gpipe/layer/linear/linear.hpp>

namespace gpipe {

// change: a device
/// The GPUs of this machine, for programs that nvcc compiles. Stages are assigned round-robin to the GPUs that
/// CUDA_VISIBLE_DEVICES allows; several stages may share one. Throws `error` if there is none.
struct cuda_device {
  using context = cuda::context;
  using arena = cuda::arena;
  using marker = cuda::marker;
  using moment = cuda::moment;
  using graph = cuda::graph;

  /// Available bytes of all GPUs together.
  GPIPE_COLD static std::int64_t memory_left() {
    cuda::require_gpu();
    std::int64_t left = 0;
    for (int gpu = 0; gpu < cuda::gpus(); ++gpu) left += cuda::memory_left(gpu);
    return left;
  }

  GPIPE_COLD static context make_context(int stage) {
    cuda::require_gpu();
    [[maybe_unused]] static const bool connected = (cuda::connect_gpus(), true);
    return context(stage % cuda::gpus());
  }
  static arena make_arena(const context& owner, std::size_t bytes, std::byte fill) {
    return arena(bytes, fill, owner.gpu());
  }
};

static_assert(graph_device<cuda_device> && timing_device<cuda_device>);

namespace cuda::detail {

template <class Layer>
inline constexpr bool is_linear = false;
template <int N>
inline constexpr bool is_linear<linear<N>> = true;

template <class On>
concept on_linear = is_linear<typename On::layer>;

}  // namespace cuda::detail

/// On a GPU the products read the weight in place, because packing gains nothing; bf16 uses its rounded copies. The
/// bias is added, and its gradient summed, inside the products.
template <class On>
requires cuda::detail::on_linear<On>
struct kernels<On, cuda::context> : On {
  static constexpr int N = detail::last_extent<typename On::output>, K = On::K, rows = On::rows;
  using value = typename On::output::value_type;
  static constexpr bool as_it_is = std::is_same_v<value, typename On::number>;

  static void prepare(const cuda::context& c, int samples) {
    if constexpr (!as_it_is) {
      On::prepare(c, samples);
    } else {
      c.prepare_multiply_by_weight<value>(samples * rows, N, K);
      c.prepare_multiply_back<value>(samples * rows, N, K);
      c.prepare_multiply_transposed<value>(N, K, samples * rows);
    }
  }

  template <class A>
  static void refresh(const cuda::context& c, const A& a) noexcept {
    if constexpr (!as_it_is) On::refresh(c, a);
  }

  template <class A>
  static void forward(const cuda::context& c, const A& a) {
    if constexpr (!as_it_is) On::forward(c, a);
    else
      c.multiply_by_weight(a.samples() * rows, N, K, a.in(), a.template parameter<0>(), a.template parameter<1>(),
                           a.out());
  }

  template <class A>
  static void backward_input(const cuda::context& c, const A& a) {
    if constexpr (!as_it_is) On::backward_input(c, a);
    else if (a.in_gradient())
      c.multiply_back(a.samples() * rows, N, K, a.out_gradient(), a.template parameter<0>(), a.in_gradient());
  }

  template <class A>
  static void backward_parameters(const cuda::context& c, const A& a) {
    c.multiply_transposed_and_sum(N, K, a.samples() * rows, a.out_gradient(), a.in(), a.template gradient<0>(),
                                  a.template gradient<1>());
  }
};

}  // namespace gpipe
