#pragma once

#include <gpipe/model/graph.hpp>
#include <gpipe/plan/partition.hpp>

namespace gpipe {

/// What a device does in a nanosecond, and what starting a kernel costs. Only the ratios decide a partition.
struct device_rates {
  std::int64_t flops_per_ns = 60;
  std::int64_t bytes_per_ns = 20;
  std::int64_t launch_ns = 100;
};

/// One core of a current CPU.
inline constexpr device_rates this_cpu{};

namespace detail {

constexpr std::int64_t picoseconds(std::int64_t flops, std::int64_t bytes, int samples, const device_rates& rates) {
  return 1000 * rates.launch_ns + samples * (1000 * flops / rates.flops_per_ns + 1000 * bytes / rates.bytes_per_ns);
}

}  // namespace detail

/// The analytic cost, in picoseconds, of one micro-batch of `samples` in a layer: operations and bytes by the device's
/// rates, and a kernel's start. With `recomputed`, backward holds the second forward too.
constexpr slot_cost cost_of(const row& r, int samples, bool recomputed, const device_rates& rates = this_cpu) {
  const std::int64_t forward = detail::picoseconds(r.cost.forward, r.cost.bytes, samples, rates);
  const std::int64_t input = detail::picoseconds(r.cost.backward_input, r.cost.bytes, samples, rates);
  const std::int64_t parameters =
      r.parameter_count == 0 ? 0 : detail::picoseconds(r.cost.backward_parameters, 0, samples, rates);
  return {forward, input + parameters + (recomputed ? forward : 0)};
}

}  // namespace gpipe
