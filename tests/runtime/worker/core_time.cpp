// sanitizers: address

#include <gpipe/runtime/worker/core_time.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <thread>

using gpipe::detail::core_time;
using gpipe::detail::now_ns;

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
