#include <gpipe/device/host/product_rate.hpp>

#include <doctest/doctest.h>

TEST_CASE("a core reaches more than a hundred million operations a second and less than ten million million") {
  const double rate = gpipe::host::product_rate(0.001, 8, 40, 16);
  CHECK(rate > 1e8);
  CHECK(rate < 1e13);
}
