#pragma once

// Replaces the library's header of this name: Thrust's loop is a loop on the stream here.

#include <cstddef>

#include <gpipe/device/cuda/stream/stream.hpp>

#include "support/pretended/gpu.hpp"

namespace gpipe::cuda {

template <class F>
void for_each(const stream& on, std::ptrdiff_t n, F f) {
  check(pretended::enqueue(on.get(), [=] {
          for (std::ptrdiff_t i = n; i > 0; --i) f(i - 1);
        }),
        "for_each");
}

}  // namespace gpipe::cuda
