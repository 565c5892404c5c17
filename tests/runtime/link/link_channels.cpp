#include <gpipe/runtime/link/link_channels.hpp>

#include <doctest/doctest.h>

#include <memory>
#include <thread>
#include <vector>

#include <gpipe/device/host/host.hpp>
#include <gpipe/layer.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/model/model.hpp>
#include <gpipe/testing.hpp>
#include <gpipe/tools/testing/emulated_link.hpp>

#include "support/layers.hpp"

using namespace gpipe;
using namespace gpipe::detail;
using namespace laws;

namespace {

struct net : model<input<float, 48>, linear<80>, gelu, linear<9>, softmax_cross_entropy> {};

step_plan plan_of(int workers, int micro_batches = 3) {
  return make_plan(network_of<net>,
                   {.stages = 2, .micro_batches = micro_batches, .micro_batch_size = 2, .workers = workers}, {2});
}

/// A device that counts what orders it.
struct device {
  void mark(device_marker&) const { ++marks; }
  void await(device_marker&) const { ++awaits; }
  mutable int marks = 0, awaits = 0;
};

/// The end of a channel to another process.
struct far_end final : sending_end, receiving_end {
  explicit far_end(std::vector<int>& to) : calls(to) {}
  void acquire(int m, wait_context) override { calls.push_back(m); }
  void publish(int m, int samples) override { calls.push_back(100 * samples + m); }
  int consume(int m, wait_context) override { return calls.push_back(m), 2; }
  void release(int m) override { calls.push_back(10 + m); }
  std::vector<int>& calls;
};

}  // namespace

TEST_CASE("a link between two workers has a channel in each direction, a link within a worker has none") {
  worker_signals wake_signals(4);
  auto channels = make_link_channels(device_of<host_device>, network_of<net>, plan_of(2), wake_signals, 0, {2, 3});
  REQUIRE(channels.size() == 1);
  CHECK(channels[0].activations.local->sender() == 2);
  CHECK(channels[0].activations.local->receiver() == 3);
  CHECK(channels[0].gradients.local->sender() == 3);
  CHECK(channels[0].gradients.local->receiver() == 2);
  CHECK(channels[0].activations.delay == nullptr);
  const auto within = make_link_channels(device_of<host_device>, network_of<net>, plan_of(1), wake_signals, 0, {0});
  CHECK_FALSE(within[0].activations);
  CHECK_FALSE(within[0].gradients);
  const auto elsewhere =
      make_link_channels(device_of<host_device>, network_of<net>, plan_of(2), wake_signals, 0, {0, -1});
  REQUIRE(elsewhere.size() == 1);
  CHECK_FALSE(elsewhere[0].activations);
}

TEST_CASE("an emulated link counts the bytes of a sample in each direction, and needs a positive rate") {
  worker_signals wake_signals(2);
  const auto channels =
      make_link_channels(device_of<host_device>, network_of<net>, plan_of(2), wake_signals, 1000, {0, 1});
  const traffic one = traffic_of(network_of<net>, plan_of(2).cut(), plan_of(2).links[0], 1);
  CHECK(channels[0].activations.delay != nullptr);
  CHECK(channels[0].activations.sample_bytes == one.forward_bytes);
  CHECK(channels[0].gradients.sample_bytes == one.backward_bytes);
  CHECK_THROWS_WITH_AS(
      make_link_channels(device_of<host_device>, network_of<net>, plan_of(2), wake_signals, -1, {0, 1}),
      "link_bytes_per_second is -1; choose a positive number, or 0 to emulate no link", error);
}

TEST_CASE("a local channel puts the devices in order, and a reset frees its slots") {
  worker_signals wake_signals(2);
  auto channels = make_link_channels(device_of<host_device>, network_of<net>, plan_of(2), wake_signals, 0, {0, 1});
  auto& link = channels[0].activations;
  const device sender, receiver;
  link.acquire(sender, 0, {});
  link.publish(sender, 0, 2);
  link.consume(receiver, 0, {});
  link.release(receiver, 0);
  CHECK(sender.awaits == 1);
  CHECK(sender.marks == 1);
  CHECK(receiver.awaits == 1);
  CHECK(receiver.marks == 1);
  link.acquire(sender, 0, {});
  channels[0].reset();
  link.acquire(sender, 0, {});
}

TEST_CASE("the end of a channel to another process is called by micro-batch, and puts the device in order itself") {
  std::vector<int> calls;
  link_channel link;
  CHECK_FALSE(link);
  link.out = std::make_unique<far_end>(calls);
  link.in = std::make_unique<far_end>(calls);
  CHECK(link);
  const device here;
  link.acquire(here, 1, {});
  link.publish(here, 1, 2);
  link.consume(here, 2, {});
  link.release(here, 2);
  CHECK(calls == std::vector<int>{1, 201, 2, 12});
  CHECK(here.marks + here.awaits == 0);
}

TEST_CASE("a stage's activations and gradients go over the channels of its links, and waiting for a link is measured") {
  const step_plan plan = plan_of(2, 1);
  worker_signals wake_signals(2);
  auto channels =
      make_link_channels(device_of<host_device>, network_of<net>, plan, wake_signals, 80'000, {0, 1});  // 4 ms a sample
  const detail::device_context device(detail::device_of<host_device>, 0);
  step_context step;
  step.rows.samples = 2, step.per_micro_batch = 2, step.micro_batches = 1;
  std::int64_t waited = 0, linked = 0;
  std::thread second([&] {
    detail::stage_io io(plan, channels);
    const instruction receive{action_kind::receive_activation, 1, 0, 0}, backward{action_kind::backward, 1, 0};
    io.begin();
    io.receive(device, receive, {});
    waited = io.waited(), linked = io.linked();
    io.acquire_gradients(device, backward, {});
    io.send(device, step, {action_kind::send_gradient, 1, 0, 0});
    io.release(device, backward, true);
  });
  detail::stage_io io(plan, channels);
  const instruction forward{action_kind::forward, 0, 0}, backward{action_kind::backward, 0, 0};
  for (int round = 0; round < 2; ++round) {
    io.begin();
    io.acquire_activations(device, forward, {});
    if (round == 1) break;  // the slot is free again
    io.send(device, step, {action_kind::send_activation, 0, 0, 0});
    io.receive(device, {action_kind::receive_gradient, 0, 0, 0}, {});
    CHECK(io.linked() > 0);
    io.release(device, backward, true);
  }
  second.join();
  CHECK(linked > 0);
  CHECK(waited >= linked);
}
