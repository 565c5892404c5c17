#include <doctest/doctest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "support/disturbed_training.hpp"

// A step without progress ends after the deadline.

using namespace disturbed;

namespace {

/// Takes 60 ms for the parameter gradient of a micro-batch.
struct slow {
  template <class In>
  struct on : linear<8>::on<In> {
    static void backward_parameters(const auto&, const auto&) { std::this_thread::sleep_for(60ms); }
  };
};
struct slow_net : model<input<float, 12>, slow, gelu, linear<7>, softmax_cross_entropy> {};

}  // namespace

TEST_CASE("parameter gradients of several micro-batches that take longer than the deadline do not end the step") {
  training_options how;
  how.deadline = 250ms;
  const plan_options plan{.stages = 2, .micro_batches = 8, .recompute = recompute_mode::never, .group_gradients = 8};
  trainer<slow_net, sgd> training(plan, sgd{}, how);
  CHECK_NOTHROW(training.step(data.take(0, 8)));
}

TEST_CASE("the deadline ends a step without progress and names the waiting and the awaited worker") {
  const auto blocks = [](pair& both, action_kind where, int stage) {
    // Doubles the time until it is longer than the deadline.
    for (auto blocked = 600ms;; blocked *= 2) {
      both.disturbance = [=](const instruction& i) {
        if (i.kind == where && i.stage == stage && i.micro_batch <= 0) std::this_thread::sleep_for(blocked);
      };
      try {
        both.disturbed.step(both.next());
        both.disturbance = {};
        both.twin.step(both.next());
        ++both.steps;
      } catch (const error& e) {
        both.disturbance = {};
        return e;
      }
    }
  };
  pair both(cuts[1], 300ms);
  const error in_channel = blocks(both, action_kind::forward, 1);
  // Stage 2 waits for an activation of stage 1, or stage 0 for the gradient that stage 2 then does not send.
  CHECK(has(in_channel,
            in_channel.where().stage == 2 ? "waits for worker 1 to fill slot" : "waits for worker 2 to fill slot"));
  CHECK(has(in_channel, "no worker made progress for 300 ms"));
  CHECK(has(in_channel, "see what worker 1 does"));
  CHECK(in_channel.where().stage != 1);
  CHECK(in_channel.where().micro_batch == 0);
  CHECK(in_channel.where().action.find("receive") == 0);
  both.recovers();
  const error at_gate = blocks(both, action_kind::update, 0);
  CHECK(has(at_gate, "waits for the others at the barrier"));
  CHECK(has(at_gate, "see what worker 0 does"));
  CHECK(at_gate.where().action == "update");
  both.recovers();
}
