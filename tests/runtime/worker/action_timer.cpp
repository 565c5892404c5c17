// sanitizers: address

#include <gpipe/runtime/worker/action_timer.hpp>

#include <doctest/doctest.h>

#include <vector>

#include <gpipe/device/host/host.hpp>

#include "support/layers.hpp"

using namespace gpipe;
using namespace laws;

namespace {

struct net : model<input<float, 4>, passing_loss> {};

/// The second replica's only worker, in a step whose third micro-batch is its first.
struct at_work {
  run_plan plan = make_plan(network_of<net>, {});
  std::vector<wire<>> wires;
  detail::handover<host_device> passes{plan, wires};
  step_state step;
  std::vector<stage_report> reports{1};
  recorder events{10};
  detail::timesheet<host_device> times{step, 1, reports, &events};

  at_work() { step.first_micro_batch = 2; }
  std::int64_t told_of_all() const { return reports[0].busy() + reports[0].wait_ns; }
};

}  // namespace

TEST_CASE("an action lasts from the end of the one before, less what it waited and copied for others") {
  at_work w;
  w.times.open(2);
  w.times.prepared(0);
  const std::int64_t before = w.reports[0].busy(act::reduce);
  w.times.begin();
  int calls = 0;
  w.times.waiting([&] { ++calls; });
  const auto copying = now_ns();
  w.times.copying([&] {
    ++calls;
    while (now_ns() == copying) continue;
  });
  w.times.end({act::forward, 0, 1}, w.passes);
  w.times.begin();
  w.times.waited(5);
  w.times.end({act::update, 0}, w.passes);
  w.times.close();

  CHECK(calls == 2);
  CHECK(w.reports[0].busy(act::send_activation) > 0);
  CHECK(w.reports[0].wait_ns >= 5);
  const auto events = w.events.events();
  REQUIRE(events.size() == 2);
  CHECK(events[0].micro_batch == 3);
  CHECK(events[0].replica == 1);
  CHECK(events[1].micro_batch == -1);
  CHECK(events[1].begin_ns == events[0].end_ns);
  CHECK(w.told_of_all() - before == events[1].end_ns - events[0].begin_ns);
}

TEST_CASE("what is not measured is in the trace alone") {
  at_work w;
  w.step.measured = false;
  w.times.open(1);
  w.times.prepared(0);
  w.times.begin();
  w.times.end({act::forward, 0, 0}, w.passes);
  w.times.close();
  CHECK(w.told_of_all() == 0);
  CHECK(w.events.events().size() == 1);
}
