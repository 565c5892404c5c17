// optimize: kernels

#include <gpipe/tools/testing/gemm_rate.hpp>

#include <doctest/doctest.h>

#include "support/sanitized.hpp"

TEST_CASE("a core reaches between 1e8 and 1e13 operations per second") {
  const double rate = gpipe::host::gemm_rate(0.001, 8, 40, 16);
  CHECK(rate > (laws::sanitized ? 1e6 : 1e8));
  CHECK(rate < 1e13);
}

TEST_CASE("the peak is at least as high as a typical measurement" * doctest::skip(laws::sanitized)) {
  const double peak = gpipe::host::gemm_peak();
  int more = 0;
  for (int i = 0; i < 5; ++i) more += gpipe::host::gemm_rate(0.002) > 1.25 * peak;
  CHECK(more < 3);  // the core's clock may have changed, or another program have run
}
