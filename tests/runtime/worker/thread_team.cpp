#include <gpipe/runtime/worker/thread_team.hpp>

#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <stdexcept>
#include <string>

using namespace gpipe;
using namespace std::chrono_literals;

namespace {

constexpr int workers = 4;
struct team {
  worker_signals signals{workers};
  thread_team threads{signals, workers};
};

}  // namespace

TEST_CASE("every worker runs the task: the first on the caller's thread, the others on their own threads") {
  team t;
  CHECK(t.threads.workers() == workers);
  std::array<std::thread::id, workers> first, second;
  t.threads.run([&](int w) { first[static_cast<std::size_t>(w)] = std::this_thread::get_id(); });
  t.threads.run([&](int w) { second[static_cast<std::size_t>(w)] = std::this_thread::get_id(); });
  CHECK(first == second);
  for (std::size_t w = 0; w < workers; ++w) {
    CHECK((first[w] == std::this_thread::get_id()) == (w == 0));
    for (std::size_t other = 0; other < w; ++other) CHECK(first[w] != first[other]);
  }
}

TEST_CASE("run returns when the last worker has finished") {
  team t;
  for (int round = 1; round <= 100; ++round) {
    std::atomic<int> done{0};
    t.threads.run([&](int w) {
      if (w == round % workers) std::this_thread::yield();
      ++done;
    });
    CHECK(done == workers);
  }
}

TEST_CASE("run throws the first exception and ends the waits of the others, and the next task runs") {
  team t;
  for (int thrower = 0; thrower < workers; ++thrower) {
    std::atomic<int> woken{0};
    try {
      t.threads.run([&](int w) {
        if (w == thrower) throw std::runtime_error(std::to_string(w));
        try {
          t.signals.wait(
              w, {}, [] { return false; }, [] { return std::string("nothing"); });
        } catch (const detail::interrupted&) {
          ++woken;
          throw;
        }
      });
      FAIL("no cause");
    } catch (const std::runtime_error& cause) {
      CHECK(cause.what() == std::to_string(thrower));
    }
    CHECK(woken == workers - 1);
    CHECK(!t.signals.interrupted());
    int after = 0;
    t.threads.run([&](int w) {
      if (w == 0) after = 1;
    });
    CHECK(after == 1);
  }
}

TEST_CASE("a team can be destroyed without a task, after a task, and after a failure") {
  for (int round = 0; round < 15; ++round) {
    team idle, worked, failed;
    worked.threads.run([](int) {});
    CHECK_THROWS_AS(failed.threads.run([](int) { throw 1; }), int);
  }
}
