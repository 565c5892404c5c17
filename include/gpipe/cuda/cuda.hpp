#pragma once

#include <algorithm>
#include <cstdint>

#include <gpipe/cuda/context.hpp>
#include <gpipe/cuda/linear.hpp>
#include <gpipe/cuda/memory/arena.hpp>

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

}  // namespace gpipe
