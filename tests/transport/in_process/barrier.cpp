#include <gpipe/transport/in_process/barrier.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

using namespace std::chrono_literals;

namespace {

template <class Body>
void together(int workers, Body body) {
  std::vector<std::thread> threads;
  for (int w = 0; w < workers; ++w) threads.emplace_back([&body, w] { body(w); });
  for (auto& thread : threads) thread.join();
}

}  // namespace

TEST_CASE("the last to arrive runs the function once, and all see what it wrote") {
  for (const int workers : {1, 2, 5}) {
    constexpr int rounds = 10000;
    gpipe::detail::worker_signals wake_signals(workers);
    gpipe::detail::barrier barrier(wake_signals, workers);
    std::vector<int> given(static_cast<std::size_t>(workers) * 16);
    int sum = 0, wrong = 0;
    std::atomic<int> faults{0};
    together(workers, [&](int me) {
      for (int round = 0; round < rounds; ++round) {
        given[static_cast<std::size_t>(me) * 16] = round + me;
        barrier.arrive(me, {}, [&]() noexcept {
          sum = 0;
          for (int w = 0; w < workers; ++w) sum += given[static_cast<std::size_t>(w) * 16];
          wrong += sum != workers * round + workers * (workers - 1) / 2;
        });
        if (sum != workers * round + workers * (workers - 1) / 2) ++faults;
        barrier.arrive(me);
      }
    });
    CHECK(wrong == 0);
    CHECK(faults == 0);
  }
}

TEST_CASE("a barrier for some of the workers does not involve the others") {
  gpipe::detail::worker_signals wake_signals(6);
  gpipe::detail::barrier even(wake_signals, 3, 0, 2), odd(wake_signals, 3, 1, 2);
  std::vector<int> rounds(6);
  together(6, [&](int me) {
    for (int round = 0; round < (me % 2 == 0 ? 2000 : 1000); ++round) {
      gpipe::detail::barrier& mine = me % 2 == 0 ? even : odd;
      mine.arrive(me, {}, [&]() noexcept { ++rounds[static_cast<std::size_t>(me % 2)]; });
    }
  });
  CHECK(rounds[0] == 2000);
  CHECK(rounds[1] == 1000);
}

TEST_CASE("a failure ends the wait by throwing, and the function does not run") {
  for (const auto spin : {0ns, std::chrono::nanoseconds(10s)}) {
    gpipe::detail::worker_signals wake_signals(3, {.spin = spin, .deadline = 60s});
    gpipe::detail::barrier barrier(wake_signals, 3);
    std::atomic<int> ran{0}, others{0};
    together(3, [&](int me) {
      try {
        if (me == 2) {
          while (spin == 0ns && !(wake_signals.asleep(0) && wake_signals.asleep(1))) std::this_thread::yield();
          wake_signals.wake_all();
        }
        barrier.arrive(me, {}, [&]() noexcept { ++ran; });
      } catch (const gpipe::detail::interrupted&) {
        ++others;
      }
    });
    CHECK(ran == 0);
    CHECK(others == 3);

    wake_signals.reset();
    together(3, [&](int me) { barrier.arrive(me, {}, [&]() noexcept { ++ran; }); });
    CHECK(ran == 1);
  }
}

TEST_CASE("all return or all throw, whenever the failure comes") {
  for (const int workers : {2, 5}) {
    constexpr int rounds = 1000;
    gpipe::detail::worker_signals wake_signals(workers + 1);
    gpipe::detail::barrier barrier(wake_signals, workers);
    std::atomic<int> ran{0}, passed{0}, done{0}, next{0};
    int split = 0, spoilt = 0;
    together(workers + 1, [&](int me) {
      for (int round = 0; round < rounds; ++round) {
        if (me == workers) {
          for (int i = 0; i < round % 40 * 50; ++i) gpipe::detail::pause();
          wake_signals.wake_all();
        } else {
          try {
            barrier.arrive(me, {}, [&]() noexcept { ++ran; });
            ++passed;
          } catch (const gpipe::detail::interrupted&) {
          }
        }
        // No failure interrupts this: the last thread checks the round and resets.
        if (++done == workers + 1) {
          split += passed != ran * workers;
          spoilt += ran == 0;
          ran = passed = done = 0;
          wake_signals.reset();
          next = round + 1;
          for (int w = 0; w <= workers; ++w) wake_signals.wake(w);
        }
        wake_signals.wait_idle(me, [&] { return next.load() > round; });
      }
    });
    CHECK(split == 0);
    MESSAGE(workers << " workers: " << spoilt << " of " << rounds << " rounds were interrupted");
  }
}

TEST_CASE("after the last arrival a failure is too late: the function ends and all go on") {
  for (const auto spin : {0ns, std::chrono::nanoseconds(10s)}) {
    gpipe::detail::worker_signals wake_signals(3, {.spin = spin, .deadline = 60s});
    gpipe::detail::barrier barrier(wake_signals, 3);
    std::atomic<int> passed{0};
    bool ended = false;
    together(3, [&](int me) {
      try {
        barrier.arrive(me, {}, [&]() noexcept {
          wake_signals.wake_all();
          for (int i = 0; i < 100000; ++i) gpipe::detail::pause();
          ended = true;
        });
        if (ended) ++passed;
      } catch (const gpipe::detail::interrupted&) {
      }
    });
    CHECK(passed == 3);
  }
}

TEST_CASE("a worker that never arrives is named") {
  gpipe::detail::worker_signals wake_signals(3, {.spin = 0ns, .deadline = 50ms});
  gpipe::detail::barrier barrier(wake_signals, 3);
  std::atomic<int> causes{0}, others{0};
  together(2, [&](int me) {
    try {
      barrier.arrive(me, {.stage = me, .action = "update"});
    } catch (const gpipe::detail::interrupted&) {
      ++others;
    } catch (const gpipe::error& e) {
      ++causes;
      CHECK(e.where().action == "update");
      CHECK(e.remedy().find("worker 2") != std::string::npos);
    }
  });
  CHECK(causes == 1);
  CHECK(others == 1);
}
