#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>

#include <gpipe/core/config.hpp>
#include <gpipe/device/host/arena.hpp>
#include <gpipe/device/host/context.hpp>

namespace gpipe::host {

/// Operations per second that the calling thread reaches in float products of rows x inner by inner x columns, with all
/// operands in the nearest caches. Runs for `seconds`.
GPIPE_COLD inline double gemm_rate(double seconds = 0.05, int rows = 64, int columns = 64, int inner = 256) {
  const auto count = [](int a, int b) { return static_cast<std::size_t>(a) * static_cast<std::size_t>(b); };
  const arena a(count(rows, inner) * sizeof(float)), b(packed_size(inner, columns) * sizeof(float)),
      c(count(rows, columns) * sizeof(float));
  const auto floats = [](const arena& memory) { return reinterpret_cast<float*>(memory.data()); };
  const context products;
  products.prepare_multiply<float>(rows, columns, inner);
  const auto run = [&] {
    for (int i = 0; i < 16; ++i) products.multiply(rows, columns, inner, floats(a), floats(b), floats(c), false);
  };
  run();  // fills the caches
  using clock = std::chrono::steady_clock;
  const auto begin = clock::now();
  double done = 0, took = 0;
  for (; took < seconds; took = std::chrono::duration<double>(clock::now() - begin).count(), done += 16) run();
  return 2.0 * rows * columns * inner * done / took;
}

/// A product of rows x inner by inner x columns.
struct product_shape {
  int rows, columns, inner;
};
/// Shapes to try: a core's highest rate is at one of them.
inline constexpr product_shape fast_products[] = {{32, 64, 256}, {64, 64, 256}, {128, 128, 256}, {256, 256, 256}};

/// The highest of several rates of a few milliseconds each: the peak that a layer's kernels are compared with, even
/// while other programs run. Takes a tenth of a second.
GPIPE_COLD inline double gemm_peak() {
  double peak = 0;
  for (int round = 0; round < 6; ++round)
    for (const product_shape& shape : fast_products)
      peak = (std::max)(peak, gemm_rate(0.004, shape.rows, shape.columns, shape.inner));
  return peak;
}

}  // namespace gpipe::host
