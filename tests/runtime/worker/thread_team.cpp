#include <gpipe/runtime/worker/thread_team.hpp>

#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include <sys/resource.h>

#include <gpipe/device/host/arena.hpp>

#include "support/sanitized.hpp"

using namespace gpipe;
using namespace gpipe::detail;
using namespace std::chrono_literals;

namespace {

constexpr int workers = 4;
struct team {
  worker_signals wake_signals{workers};
  thread_team threads{wake_signals, workers};
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
          t.wake_signals.wait(
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
    CHECK(!t.wake_signals.interrupted());
    int after = 0;
    t.threads.run([&](int w) {
      if (w == 0) after = 1;
    });
    CHECK(after == 1);
  }
}

TEST_CASE("a task that only interruptions end is no success, and the next task runs") {
  team t;
  for (int first = 0; first < workers; ++first) {  // as if another process has failed
    std::atomic<int> woken{0};
    const auto task = [&](int w) {
      if (w == first) throw detail::interrupted{};
      try {
        t.wake_signals.wait(
            w, {}, [] { return false; }, [] { return std::string("nothing"); });
      } catch (const detail::interrupted&) {
        ++woken;
        throw;
      }
    };
    CHECK_THROWS_AS(t.threads.run(task), detail::interrupted);
    CHECK(woken == workers - 1);
    CHECK(!t.wake_signals.interrupted());
    CHECK_NOTHROW(t.threads.run([](int) {}));
  }
}

TEST_CASE("a team can be destroyed without a task, after a task, and after a failure") {
  for (int round = 0; round < 15; ++round) {
    team idle, worked, failed;
    worked.threads.run([](int) {});
    CHECK_THROWS_AS(failed.threads.run([](int) { throw 1; }), int);
  }
}

// Sanitizers need more addresses than the limit leaves.
#if !defined(TESTS_SANITIZED) && !defined(TESTS_THREAD_SANITIZED)
TEST_CASE("too few addresses for the threads: the error says what was wanted, and what to do") {
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_AS, &before) == 0);
  rlimit low = before;
  low.rlim_cur = rlim_t{1} << 40;
  REQUIRE(setrlimit(RLIMIT_AS, &low) == 0);
  low.rlim_cur -= static_cast<rlim_t>(gpipe::detail::address_space_left());
  low.rlim_cur += rlim_t{64} << 20;  // a thread's stack takes 8 MiB
  REQUIRE(setrlimit(RLIMIT_AS, &low) == 0);
  std::string found;
  {
    worker_signals wake_signals(64);
    try {
      const thread_team threads(wake_signals, 64);
    } catch (const error& failure) {
      found = failure.what();
    }
  }
  REQUIRE(setrlimit(RLIMIT_AS, &before) == 0);
  CAPTURE(found);
  CHECK(found.find("the workers here are 64 and need 63 threads beside the caller's, but the system starts ") == 0);
  CHECK(found.find("choose fewer stages, workers, replicas or threads, or raise the limits of threads (ulimit -u)") !=
        std::string::npos);
  team after;  // works again
  after.threads.run([](int) {});
}
#endif

#if defined(__linux__)
TEST_CASE("each worker is bound to its cores: the others always, the caller while a task runs, also if it throws") {
  struct by_worker : core_placement {
    std::vector<core_set> divide(int count, const host_cores&) const override {
      const core_set all = cores::allowed_bits();
      std::vector<core_set> found;
      for (std::size_t c = 0; static_cast<int>(found.size()) < count; c = (c + 1) % 1024)
        if ((all[c / 64] >> c % 64 & 1) != 0) found.emplace_back()[c / 64] = std::uint64_t{1} << c % 64;
      return found;
    }
    bool move_near(void*, std::size_t, const core_set&) const noexcept override { return true; }
  };
  const by_worker placement;
  const std::vector<core_set> expected = placement.divide(workers, {});
  const core_set before = cores::allowed_bits();
  const worker_cores own(&placement, workers, {});
  worker_signals wake_signals(workers, {.bound = true});
  thread_team threads(wake_signals, workers, &own);
  std::vector<core_set> seen(workers);
  for (int round = 0; round < 3; ++round) {
    threads.run([&](int w) { seen[static_cast<std::size_t>(w)] = cores::allowed_bits(); });
    CHECK(seen == expected);
    CHECK(cores::allowed_bits() == before);
    CHECK_THROWS_AS(threads.run([&](int w) {
      if (w == round) throw std::runtime_error("broken");
    }),
                    std::runtime_error);
    CHECK(cores::allowed_bits() == before);
  }
}
#endif
