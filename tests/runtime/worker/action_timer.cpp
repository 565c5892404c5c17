// sanitizers: address

#include <gpipe/runtime/worker/action_timer.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include <gpipe/device/host/host.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/model/model.hpp>

#include "support/layers.hpp"

using namespace gpipe;
using namespace gpipe::detail;
using namespace laws;
using gpipe::detail::core_time;
using gpipe::detail::now_ns;

namespace {

struct net : model<input<float, 4>, passing_loss> {};

/// The only worker of the second replica. Its first micro-batch is the third of the step.
struct timed_worker {
  step_plan plan = make_plan(network_of<net>, {});
  std::vector<link_channels> channels;
  detail::stage_io io{plan, channels};
  step_context step;
  std::vector<stage_report> reports{1};
  recorder events{10};
  detail::action_timer times{step, 1, 3, reports, &events, device_of<host_device>};

  timed_worker() { step.first_micro_batch = 2, step.step = 7; }
  std::int64_t reported() const { return reports[0].busy() + reports[0].wait_ns; }
};

}  // namespace

TEST_CASE("an action lasts from the end of the one before, less its waits and its copies") {
  timed_worker w;
  w.times.open(2);
  w.times.prepared(0);
  const std::int64_t before = w.reports[0].busy(action_kind::reduce);
  w.times.begin();
  int calls = 0;
  w.times.waiting([&] { ++calls; });
  const auto copying = now_ns();
  w.times.copying([&] {
    ++calls;
    while (now_ns() == copying) continue;
  });
  w.times.end({action_kind::forward, 0, 1}, w.io);
  w.times.begin();
  w.times.waited(5);
  w.times.end({action_kind::update, 0}, w.io);
  w.times.close();

  CHECK(calls == 2);
  CHECK(w.reports[0].busy(action_kind::send_activation) > 0);
  CHECK(w.reports[0].wait_ns >= 5);
  const auto events = w.events.events();
  REQUIRE(events.size() == 2);
  CHECK(events[0].micro_batch == 3);
  CHECK(events[0].replica == 1);
  CHECK(events[0].worker == 3);
  CHECK(events[1].waited_ns == 5);
  CHECK(events[0].step == 7);
  CHECK(events[1].micro_batch == -1);
  CHECK(events[1].begin_ns == events[0].end_ns);
  CHECK(w.reported() - before == events[1].end_ns - events[0].begin_ns);
}

TEST_CASE("the actions of a pass that is not timed are in the trace only") {
  timed_worker w;
  w.step.begin(pass_kind::measure);
  w.times.open(1);
  w.times.prepared(0);
  w.times.begin();
  w.times.end({action_kind::forward, 0, 0}, w.io);
  w.times.close();
  CHECK(w.reported() == 0);
  REQUIRE(w.events.events().size() == 1);
  CHECK(w.events.events()[0].step == -1);
}

TEST_CASE("the trace has the time in which the thread was not running, unless it waited") {
  using namespace std::chrono_literals;
  struct since {
    std::int64_t clock = now_ns(), core = detail::thread_cpu_ns();
    std::int64_t off() const { return now_ns() - clock - (detail::thread_cpu_ns() - core); }
  };
  timed_worker w;
  w.times.open(2);
  std::this_thread::sleep_for(5ms);  // before the first action
  w.times.prepared(0);
  const since first;
  w.times.begin();
  w.times.waiting([] { std::this_thread::sleep_for(3ms); });
  for (const auto from = detail::thread_cpu_ns(); detail::thread_cpu_ns() < from + 6'000'000;) continue;
  w.times.end({action_kind::forward, 0, 0}, w.io);
  const std::int64_t off = first.off();  // the wait, and the time in which others had the core
  w.times.begin();
  std::this_thread::sleep_for(3ms);
  w.times.end({action_kind::backward, 0, 0}, w.io);
  w.times.close();
  const auto events = w.events.events();
  REQUIRE(events.size() == 2);
  CHECK(events[0].waited_ns >= 3'000'000);
  CHECK(events[0].not_running_ns <= off - 2'900'000);
  CHECK(events[1].not_running_ns >= 2'900'000);
  CHECK(events[1].not_running_ns <= events[1].end_ns - events[1].begin_ns);
}

namespace {

constexpr std::int64_t us = 1000;

// A clock of the thread that the test sets; it counts its readings.
std::int64_t used = 0;
int readings = 0;
std::int64_t read_used() noexcept { return ++readings, used; }

/// A thread of which the test says what it does.
struct thread_story {
  core_time watched{read_used};
  std::int64_t now = 0;

  thread_story() { readings = 0, used = 0, watched.open(now); }
  /// An action that runs, stands still and waits for these times. Returns the time that is found as not running.
  std::int64_t act(std::int64_t runs, std::int64_t stands, std::int64_t waits = 0, bool spins = false) {
    const auto begin = now;
    now += runs + stands + waits;
    used += runs + (spins ? waits : 0);
    return watched.not_running(begin, now, waits);
  }
};

}  // namespace

TEST_CASE("a long action that stood still is found to the nanosecond") {
  thread_story t;
  CHECK(t.act(300 * us, 700 * us) == 700 * us);
  CHECK(t.act(1000 * us, 0) == 0);
  CHECK(t.act(1, 100 * us) == 100 * us);
}

TEST_CASE("waiting is not standing still, whether the thread sleeps or spins meanwhile") {
  thread_story t;
  CHECK(t.act(10 * us, 0, 500 * us) == 0);
  CHECK(t.act(10 * us, 0, 500 * us, true) == 0);
  CHECK(t.act(200 * us, 90 * us, 400 * us) == 90 * us);
  CHECK(t.act(0, 90 * us, 400 * us, true) <= 90 * us);
}

TEST_CASE("the thread's clock is read at most once in a tenth of a millisecond") {
  thread_story t;
  for (int i = 0; i < 100'000; ++i) CHECK(t.act(1 * us, 0) == 0);
  CHECK(readings <= 1 + 1000);
  CHECK(readings > 500);
}

TEST_CASE("an action has at most its own time, however long those before it stood still") {
  thread_story t;
  for (int i = 0; i < 9; ++i) CHECK(t.act(0, 10 * us) == 0);
  CHECK(t.act(10 * us, 10 * us) == 20 * us);  // the first reading: 100 of 110 us
  CHECK(t.act(200 * us, 0) == 0);
}

TEST_CASE("the clock of the thread stands still while it sleeps, and runs while it computes") {
  using namespace std::chrono_literals;
  const auto clock = gpipe::detail::now_ns(), used_before = gpipe::detail::thread_cpu_ns();
  std::this_thread::sleep_for(5ms);
  const auto slept = gpipe::detail::now_ns() - clock - (gpipe::detail::thread_cpu_ns() - used_before);
  CHECK(slept >= 4'900'000);
  const auto from = gpipe::detail::thread_cpu_ns();
  const auto begin = gpipe::detail::now_ns();
  while (gpipe::detail::thread_cpu_ns() - from < 1'000'000 && gpipe::detail::now_ns() - begin < 10'000'000'000)
    continue;
  CHECK(gpipe::detail::thread_cpu_ns() - from >= 1'000'000);
}
