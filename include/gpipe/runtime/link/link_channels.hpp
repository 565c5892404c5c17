#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <gpipe/core/index.hpp>
#include <gpipe/plan/cost/link_cost.hpp>
#include <gpipe/plan/step_plan.hpp>
#include <gpipe/runtime/step/link_choice.hpp>
#include <gpipe/transport/contract/channel_ends.hpp>
#include <gpipe/transport/in_process/channel.hpp>
#include <gpipe/transport/in_process/link_delay.hpp>

namespace gpipe::detail {

/// The end here of a channel to another process; at most one of the two is there.
struct remote_end {
  std::unique_ptr<sending_end> out;
  std::unique_ptr<receiving_end> in;
};

/// One direction of a link, as its stages use it: a channel of this process, or the one end here of a channel to
/// another process. This is the only place that distinguishes the two. Empty: nothing flows. `Marker` is the device's.
///
/// A local channel is called without virtual calls, and its markers put the two stages' devices in order; the end of a
/// channel to another process does that itself.
template <class Marker = unmarked>
struct link_channel : remote_end {
  std::unique_ptr<channel<Marker>> local;
  std::unique_ptr<link_delay> delay;  ///< null: a transfer takes no time
  std::int64_t sample_bytes = 0;      ///< of each sample, for the delay

  explicit operator bool() const { return local || out || in; }

  template <class Context>
  void acquire(const Context& device, int m, const wait_context& what) {
    if (!local) return out->acquire(m, what);
    local->acquire(m, what);
    device.await(local->marker(m));
  }
  template <class Context>
  void publish(const Context& device, int m, int samples) {
    if (!local) return out->publish(m, samples);
    if (delay) delay->depart(m, sample_bytes * samples);
    device.mark(local->marker(m));
    local->publish(m, samples);
  }
  template <class Context>
  void consume(const Context& device, int m, const wait_context& what) {
    if (!local) return static_cast<void>(in->consume(m, what));
    local->consume(m, what);
    device.await(local->marker(m));
  }
  template <class Context>
  void release(const Context& device, int m) {
    if (!local) return in->release(m);
    device.mark(local->marker(m));
    local->release(m);
  }
  void reset() {
    if (local) local->reset();
    if (delay) delay->reset();
  }
};

/// The channels of one link: activations forward, gradients back if any flow.
template <class Marker = unmarked>
struct link_channels {
  link_channel<Marker> activations, gradients;

  void reset() {
    activations.reset();
    gradients.reset();
  }
};

/// The channels of each link of a plan between two workers that are here. The others are empty: one worker writes a
/// value where it reads it, and another process gets its ends later. `waiters[w]`: the number of worker w in
/// `wake_signals`; -1: it is in another process.
template <class Marker>
GPIPE_COLD std::vector<link_channels<Marker>> make_link_channels(const network& net, const step_plan& plan,
                                                                 worker_signals& wake_signals,
                                                                 const link_choice& emulated,
                                                                 const std::vector<int>& waiters) {
  if (emulated.bytes_per_second() < 0)
    detail::throw_error({"link_bytes_per_second is ", emulated.bytes_per_second()},
                        {"choose a positive number, or 0 to emulate no link"});
  std::vector<link_channels<Marker>> channels(plan.links.size());
  for (std::size_t k = 0; k < plan.links.size(); ++k) {
    const auto& [from, to, gradient] = plan.links[k];
    const int first = waiters[index(plan.worker_of(from))], second = waiters[index(plan.worker_of(to))];
    if (first == second || first < 0 || second < 0) continue;
    const auto make = [&](link_channel<Marker>& made, int sender, int receiver, const std::vector<int>& memory_slots,
                          std::int64_t traffic::*bytes) {
      made.local = std::make_unique<channel<Marker>>(wake_signals, sender, receiver, memory_slots);
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
