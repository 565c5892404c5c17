#pragma once

// Replaces the library's header of this name: a kernel runs thread by thread.

#include <gpipe/device/cuda/stream/stream.hpp>

#include "support/pretended/block.hpp"
#include "support/pretended/gpu.hpp"

namespace gpipe::cuda {

template <class... Terms>
void launch(const stream& on, dim3 grid, dim3 block, void (*kernel)(Terms...), Terms... given) {
  check(pretended::enqueue(on.get(), [=] { pretended::run_grid(grid, block, [&] { kernel(given...); }); }),
        "cudaLaunchKernelEx");
}

}  // namespace gpipe::cuda
