#pragma once

#include <cstdint>

#include <gpipe/core/descriptions/shard.hpp>
#include <gpipe/model/network.hpp>
#include <gpipe/plan/cost/device_spec.hpp>
#include <gpipe/plan/cost/layer_cost.hpp>
#include <gpipe/plan/options/options.hpp>
#include <gpipe/plan/options/plan_options.hpp>
#include <gpipe/plan/schedule/any_schedule.hpp>

namespace gpipe::detail {

/// The bytes of a model's parameters in the layers [first, last).
constexpr std::int64_t parameter_bytes(const network& net, int first, int last) {
  std::int64_t sum = 0;
  for (int l = first; l < last; ++l) sum += static_cast<std::int64_t>(net.own_bytes(l));
  return sum;
}

/// The time from the last backward of a worker to its updated parameters, in picoseconds: R replicas sum their
/// gradients, and each updates all parameters or, in shares, one of R parts. With P bytes of parameters
///
///     sums     2 (R - 1) / R x P over the link, in 2 (R - 1) transfers: reduced to shares, and gathered
///     update   value read and written, gradient read, moments read and written: (3 + 2 moments) P of memory
constexpr std::int64_t update_time(std::int64_t parameter_bytes, const plan_options& options,
                                   const device_spec& device) {
  const std::int64_t R = options.replicas;
  std::int64_t time = 0;
  if (R > 1 && parameter_bytes > 0)
    time = summed(picoseconds(multiplied(parameter_bytes / R, 2 * (R - 1)), device.link_bytes_per_second, device.name),
                  multiplied(device.link_latency_ns, 2000 * (R - 1)));
  const std::int64_t updated = options.shares() > 1 ? parameter_bytes / R : parameter_bytes;
  return summed(time, picoseconds(multiplied(updated, 3 + 2 * options.optimizer_moments),
                                  device.memory_bytes_per_second, device.name));
}

/// The update time of a plan with this cut, on the worker where it takes longest.
constexpr std::int64_t update_time(const network& net, const plan_options& options, const int* first) {
  const schedule_choice schedule = options.chosen_schedule();
  std::int64_t longest = 0;
  for (int w = 0; w < schedule.workers(options.stages); ++w) {
    std::int64_t bytes = 0;
    const device_spec* device = &options.device;
    for (int s = 0; s < options.stages; ++s)
      if (schedule.worker_of(options.stages, s) == w)
        bytes += parameter_bytes(net, first[s], first[s + 1]), device = &options.device_of(s);
    const std::int64_t time = update_time(bytes, options, *device);
    if (time > longest) longest = time;
  }
  return longest;
}

}  // namespace gpipe::detail
