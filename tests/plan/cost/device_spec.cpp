#include <gpipe/plan/cost/device_spec.hpp>

#include <doctest/doctest.h>

using namespace gpipe;

namespace {

constexpr device_spec all[] = {p100, v100_16gb, v100_32gb,   a100_40gb,   a100_80gb, h100,
                               h200, l4,        tpu_v2_core, tpu_v3_core, this_cpu};

constexpr bool sensible(const device_spec& d) {
  return d.float32 > 0 && d.float64 >= 0 && d.float64 < d.float32 && d.half >= 0 && d.memory_bytes_per_second > 0 &&
         d.link_bytes_per_second > 0 && d.link_bytes_per_second <= d.memory_bytes_per_second &&
         d.link_latency_ns >= 0 && d.launch_ns >= 0 && d.memory_bytes > 0;
}
static_assert([] {
  for (const device_spec& d : all)
    if (!sensible(d)) return false;
  return true;
}());

static_assert(p100.flops_per_second(dtype::float32) == 10'600'000'000'000);
static_assert(p100.flops_per_second(dtype::float64) == 5'300'000'000'000);
static_assert(h100.in_half().flops_per_second(dtype::float32) == 989'000'000'000'000);
static_assert(h100.in_half().link_bytes_per_second == h100.link_bytes_per_second);
// The paper's devices have 8 GB (AmoebaNet) or 16 GB (Transformer).
static_assert(tpu_v2_core.memory_bytes == 8'000'000'000 && tpu_v3_core.memory_bytes == 16'000'000'000);

}  // namespace

TEST_CASE("every device has a distinct name") {
  for (const device_spec& a : all)
    for (const device_spec& b : all) CHECK((&a == &b) == (doctest::String(a.name) == b.name));
}
