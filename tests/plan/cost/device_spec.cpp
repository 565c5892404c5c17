#include <gpipe/plan/cost/device_spec.hpp>

#include <doctest/doctest.h>

#include <gpipe/model/gpt2.hpp>
#include <gpipe/model/in_bf16.hpp>
#include <gpipe/model/model.hpp>
#include <gpipe/plan/cost/layer_cost.hpp>

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
// What `bash bench/run gpu_counts gpt2_` counts of a block's kernels, in us, for a micro-batch of 2 x 1,024 tokens in
// bf16: the shares predict it, within a fifth. Counts have no launches.
constexpr const network& counted = network_of<in_bf16<gpt2<1, 768>>>;
struct of_block {
  std::int64_t forward = 0, backward = 0;
};
constexpr of_block predicted(device_spec on) {
  on.launch_ns = 0;
  of_block found;
  for (int l = 2; l < 8; ++l) {
    const layer_cost c = detail::layer_cost_of(counted.type_of(l), 2, on);
    found.forward += c.forward, found.backward += c.backward_input + c.backward_parameters;
  }
  return found;
}
constexpr bool near(std::int64_t predicted_ps, double counted_us) {
  const double ratio = static_cast<double>(predicted_ps) * 1e-6 / counted_us;
  return 0.8 < ratio && ratio < 1.2;
}
static_assert(counted.type_of(3).name.starts_with("causal_attention") &&
              counted.type_of(6).name.starts_with("feed_forward"));
static_assert(near(predicted(a100_80gb).forward, 188.9) && near(predicted(a100_80gb).backward, 424.6));
static_assert(near(predicted(h100).forward, 69.7) && near(predicted(h100).backward, 167.8));

// A device whose kernels were not counted reaches its peaks.
constexpr device_spec at_peak = [] {
  device_spec d = h100;
  d.half_shares = {};
  return d;
}();
static_assert(predicted(at_peak).forward < predicted(h100).forward && !near(predicted(at_peak).backward, 167.8));
static_assert(h100.in_half().shares(dtype::float32).product == h100.shares(dtype::bf16).product);

// The paper's devices have 8 GB (AmoebaNet) or 16 GB (Transformer).
static_assert(tpu_v2_core.memory_bytes == 8'000'000'000 && tpu_v3_core.memory_bytes == 16'000'000'000);

}  // namespace

TEST_CASE("every device has a distinct name") {
  for (const device_spec& a : all)
    for (const device_spec& b : all) CHECK((&a == &b) == (doctest::String(a.name) == b.name));
}
