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
struct office {
  worker_signals line{workers};
  gpipe::thread_team thread_team{line, workers};
};

}  // namespace

TEST_CASE("every worker does the task, the first on the caller's thread, the others on one that they keep") {
  office o;
  CHECK(o.thread_team.workers() == workers);
  std::array<std::thread::id, workers> first, second;
  o.thread_team.run([&](int w) { first[static_cast<std::size_t>(w)] = std::this_thread::get_id(); });
  o.thread_team.run([&](int w) { second[static_cast<std::size_t>(w)] = std::this_thread::get_id(); });
  CHECK(first == second);
  for (std::size_t w = 0; w < workers; ++w) {
    CHECK((first[w] == std::this_thread::get_id()) == (w == 0));
    for (std::size_t other = 0; other < w; ++other) CHECK(first[w] != first[other]);
  }
}

TEST_CASE("run returns when the last is back") {
  office o;
  for (int round = 1; round <= 100; ++round) {
    std::atomic<int> done{0};
    o.thread_team.run([&](int w) {
      if (w == round % workers) std::this_thread::yield();
      ++done;
    });
    CHECK(done == workers);
  }
}

TEST_CASE("the first that throws is the cause; the others are woken, and the next task runs") {
  office o;
  for (int thrower = 0; thrower < workers; ++thrower) {
    std::atomic<int> woken{0};
    try {
      o.thread_team.run([&](int w) {
        if (w == thrower) throw std::runtime_error(std::to_string(w));
        try {
          o.line.wait(
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
    CHECK(!o.line.interrupted());
    int after = 0;
    o.thread_team.run([&](int w) {
      if (w == 0) after = 1;
    });
    CHECK(after == 1);
  }
}

TEST_CASE("a crew ends, with and without a task done, and after a failure") {
  for (int round = 0; round < 15; ++round) {
    office idle, worked, failed;
    worked.thread_team.run([](int) {});
    CHECK_THROWS_AS(failed.thread_team.run([](int) { throw 1; }), int);
  }
}
