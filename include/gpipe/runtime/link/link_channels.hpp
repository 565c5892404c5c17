#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <gpipe/core/build_mode.hpp>
#include <gpipe/core/index.hpp>
#include <gpipe/device/contract/device_functions.hpp>
#include <gpipe/plan/cost/link_cost.hpp>
#include <gpipe/plan/step_plan.hpp>
#include <gpipe/runtime/step/link_choice.hpp>
#include <gpipe/transport/contract/channel_ends.hpp>
#include <gpipe/transport/in_process/channel.hpp>
#include <gpipe/transport/in_process/link_delay.hpp>

namespace gpipe::detail {

/// This process's end of a channel to another process; at most one of the two is set.
struct remote_end {
  std::unique_ptr<sending_end> out;
  std::unique_ptr<receiving_end> in;
};

/// One direction of a link: a channel within this process, or this process's end of a channel to another process. No
/// other code distinguishes the two. Empty: nothing flows.
///
/// A local channel is called without virtual calls, and its markers put the two stages' devices in order; the end of a
/// channel to another process does that itself.
struct link_channel : remote_end {
  std::unique_ptr<channel<device_marker>> local;
  std::unique_ptr<link_delay> delay;  ///< null: a transfer takes no time
  std::int64_t sample_bytes = 0;      ///< of each sample, for the delay

  explicit operator bool() const { return local || out || in; }

  template <class Context>
  void acquire(const Context& device, int m, const wait_context& wait) {
    if (!local) return out->acquire(m, wait);
    local->acquire(m, wait);
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
  void consume(const Context& device, int m, const wait_context& wait) {
    if (!local) return static_cast<void>(in->consume(m, wait));
    local->consume(m, wait);
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
struct link_channels {
  link_channel activations, gradients;

  void reset() {
    activations.reset();
    gradients.reset();
  }
};

// change: link emulation
/// The channels of each link of a plan between two workers of this process. Other links are empty: within one worker a
/// value is written where it is read, and the ends of channels to other processes are made later. The markers are made
/// by `device`. `waiters[w]`: the number of worker w in `wake_signals`; -1: it is in another process.
std::vector<link_channels> make_link_channels(const device_functions& device, const network& net, const step_plan& plan,
                                              worker_signals& wake_signals, const link_choice& emulated,
                                              const std::vector<int>& waiters);

}  // namespace gpipe::detail

#if !GPIPE_COMPILED
#include <gpipe/runtime/link/link_channels-inl.hpp>
#endif
