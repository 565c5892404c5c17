#include <gpipe/runtime/link/stage_io.hpp>

#include <doctest/doctest.h>

#include <thread>
#include <vector>

#include <gpipe/device/host/host.hpp>
#include <gpipe/layer.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/model/model.hpp>
#include <gpipe/testing.hpp>

#include "support/layers.hpp"

using namespace gpipe;
using namespace gpipe::detail;
using namespace laws;

namespace {

struct net : model<input<float, 48>, linear<80>, gelu, linear<9>, softmax_cross_entropy> {};

}  // namespace

TEST_CASE("a stage's activations and gradients go over the channels of its links, and waiting for a link is measured") {
  const step_plan plan =
      make_plan(network_of<net>, {.stages = 2, .micro_batches = 1, .micro_batch_size = 2, .workers = 2}, {2});
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
