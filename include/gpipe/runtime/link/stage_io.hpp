#pragma once

#include <cstdint>
#include <vector>

#include <gpipe/core/clock.hpp>
#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/plan/step_plan.hpp>
#include <gpipe/runtime/link/link_channels.hpp>
#include <gpipe/runtime/step/step_context.hpp>

namespace gpipe::detail {

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
