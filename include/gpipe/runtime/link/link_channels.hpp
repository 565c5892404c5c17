#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <gpipe/core/clock.hpp>
#include <gpipe/core/config.hpp>
#include <gpipe/device/contract/device_functions.hpp>
#include <gpipe/plan/cost/layer_cost.hpp>
#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/plan/step_plan.hpp>
#include <gpipe/runtime/step/step_context.hpp>
#include <gpipe/runtime/step/training_options.hpp>
#include <gpipe/transport/contract/process_group.hpp>
#include <gpipe/transport/in_process/channel.hpp>

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
GPIPE_COLD inline std::vector<link_channels> make_link_channels(const device_functions& device, const network& net,
                                                                const step_plan& plan, worker_signals& wake_signals,
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

// assumes: links in a process move no bytes
/// Moves a worker's activations and gradients over the channels of its replica, and measures how long the worker waits
/// for them. `device` is the stage's context, or an object that calls its `mark` and `await`.
class stage_io {
 public:
  stage_io(const step_plan& plan, std::vector<link_channels>& channels) : plan_(plan), channels_(channels) {}

  /// An action begins.
  void begin() { waited_ = linked_ = 0; }
  /// Nanoseconds that the action waited: in total, and for an emulated link.
  std::int64_t waited() const { return waited_; }
  std::int64_t linked() const { return linked_; }

  template <class Context>
  GPIPE_OUT_OF_LINE void receive(const Context& device, const instruction& action, const wait_context& wait) {
    link_channels& link = channels_[index(action.link)];
    auto& channel = action.kind == action_kind::receive_activation ? link.activations : link.gradients;
    time([&] { channel.consume(device, action.micro_batch, wait); });
    if (channel.delay) linked_ += time([&] { channel.delay->arrive(action.micro_batch); });
  }
  template <class Context>
  GPIPE_OUT_OF_LINE void send(const Context& device, const step_context& step, const instruction& action) {
    link_channels& link = channels_[index(action.link)];
    auto& channel = action.kind == action_kind::send_activation ? link.activations : link.gradients;
    channel.publish(device, action.micro_batch, step.samples(action.micro_batch));
  }

  /// Called before the stage writes values that other stages read.
  template <class Context>
  GPIPE_OUT_OF_LINE void acquire_activations(const Context& device, const instruction& action,
                                             const wait_context& wait) {
    for (const int k : plan_.outgoing[index(action.stage)])
      acquire(device, action.micro_batch, channels_[index(k)].activations, wait);
  }
  template <class Context>
  GPIPE_OUT_OF_LINE void acquire_gradients(const Context& device, const instruction& action, const wait_context& wait) {
    for (const int k : plan_.incoming[index(action.stage)])
      acquire(device, action.micro_batch, channels_[index(k)].gradients, wait);
  }
  /// Called after the last use of the values that the stage received for this micro-batch.
  template <class Context>
  GPIPE_OUT_OF_LINE void release(const Context& device, const instruction& action, bool training) {
    for (const int k : plan_.incoming[index(action.stage)])
      if (auto& channel = channels_[index(k)].activations) channel.release(device, action.micro_batch);
    if (!training) return;
    for (const int k : plan_.outgoing[index(action.stage)])
      if (auto& channel = channels_[index(k)].gradients) channel.release(device, action.micro_batch);
  }

 private:
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }

  template <class Call>
  std::int64_t time(Call&& call) {
    const auto begin = now_ns();
    call();
    const auto waited = now_ns() - begin;
    waited_ += waited;
    return waited;
  }
  template <class Context>
  GPIPE_OUT_OF_LINE void acquire(const Context& device, int m, link_channel& channel, const wait_context& wait) {
    if (channel) time([&] { channel.acquire(device, m, wait); });
  }

  const step_plan& plan_;
  std::vector<link_channels>& channels_;
  std::int64_t waited_ = 0, linked_ = 0;
};

}  // namespace gpipe::detail
