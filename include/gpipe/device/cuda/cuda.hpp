#pragma once

#include <algorithm>

#include <gpipe/device/cuda/context.hpp>
#include <gpipe/device/cuda/linear.hpp>
#include <gpipe/device/cuda/memory/arena.hpp>

namespace gpipe {

/// The GPUs of this machine; for programs that nvcc compiles. Stages go round the GPUs that CUDA_VISIBLE_DEVICES
/// leaves, and where there is one they share it. Throws `error` where there is none.
struct cuda_device {
  using context = cuda::context;
  using arena = cuda::arena;
  using marker = cuda::marker;
  using moment = cuda::moment;
  using graph = cuda::graph;

  /// Bytes that the GPUs can still give, all together.
  GPIPE_ONCE static std::int64_t memory_left() {
    cuda::require_gpu();
    std::int64_t left = 0;
    for (int gpu = 0; gpu < cuda::gpus(); ++gpu) left += cuda::memory_left(gpu);
    return left;
  }

  GPIPE_ONCE static context make_context(int stage) {
    cuda::require_gpu();
    [[maybe_unused]] static const bool connected = (cuda::connect_gpus(), true);
    return context(stage % cuda::gpus());
  }
  static arena make_arena(const context& of, std::size_t bytes, std::byte fill) {
    return arena(bytes, fill, of.gpu());
  }
};

static_assert(graph_device<cuda_device> && timing_device<cuda_device>);

}  // namespace gpipe
