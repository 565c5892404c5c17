#pragma once

#include <gpipe/core/config.hpp>
#include <gpipe/runtime/link/link_channels.hpp>

namespace gpipe::detail {

GPIPE_INLINE GPIPE_COLD std::vector<link_channels> make_link_channels(const device_functions& device,
                                                                      const network& net, const step_plan& plan,
                                                                      worker_signals& wake_signals,
                                                                      const link_choice& emulated,
                                                                      const std::vector<int>& waiters) {
  if (emulated.bytes_per_second() < 0)
    detail::throw_error({"link_bytes_per_second is ", emulated.bytes_per_second()},
                        {"choose a positive number, or 0 to emulate no link"});
  std::vector<link_channels> channels(plan.links.size());
  for (std::size_t k = 0; k < plan.links.size(); ++k) {
    const auto& [source, target, gradient] = plan.links[k];
    const int first = waiters[index(plan.worker_of(source))], second = waiters[index(plan.worker_of(target))];
    if (first == second || first < 0 || second < 0) continue;
    const auto make = [&](link_channel& made, int sender, int receiver, const std::vector<int>& memory_slots,
                          std::int64_t traffic::*bytes) {
      made.local = std::make_unique<channel<device_marker>>(wake_signals, sender, receiver, memory_slots);
      for (int m = 0; m < static_cast<int>(memory_slots.size()); ++m)
        if (made.local->marker(m).get() == nullptr) made.local->marker(m) = device_marker(device);
      if (!emulated) return;
      made.delay = emulated.emulation().make(wake_signals, receiver, static_cast<int>(memory_slots.size()),
                                             emulated.bytes_per_second());
      made.sample_bytes = traffic_of(net, plan.cut(), plan.links[k], 1).*bytes;
    };
    make(channels[k].activations, first, second, plan.slots_of_links[k].stash, &traffic::forward_bytes);
    if (gradient) make(channels[k].gradients, second, first, plan.slots_of_links[k].returned, &traffic::backward_bytes);
  }
  return channels;
}

}  // namespace gpipe::detail
