#include <gpipe/transport/in_process/worker_signals.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#if defined(__linux__)
#include <sched.h>
#endif

using namespace std::chrono_literals;
using gpipe::detail::wait_result;

namespace {

constexpr gpipe::wait_limits spinning{.spin = 10s, .deadline = 60s};
constexpr gpipe::wait_limits sleeping{.spin = 0ns, .deadline = 60s};
constexpr gpipe::wait_limits brief{.spin = 0ns, .deadline = 50ms};

const auto never = [] { return false; };

void until_asleep(const gpipe::detail::worker_signals& wake_signals, int worker) {
  while (!wake_signals.asleep(worker)) std::this_thread::yield();
}

}  // namespace

TEST_CASE("a wait for what is ready returns at once, interrupted or not") {
  gpipe::detail::worker_signals wake_signals(1);
  CHECK(wake_signals.try_wait(0, [] { return true; }) == wait_result::ready);
  wake_signals.wake_all();
  CHECK(wake_signals.try_wait(0, [] { return true; }) == wait_result::ready);
  CHECK(wake_signals.try_wait(0, never) == wait_result::interrupted);
  wake_signals.reset();
  CHECK_FALSE(wake_signals.interrupted());
}

TEST_CASE("wake ends a sleep, and a spinning worker needs no wake") {
  for (const auto& limits : {spinning, sleeping}) {
    gpipe::detail::worker_signals wake_signals(2, limits);
    std::atomic<int> value{0};
    std::thread waiter([&] {
      CHECK(wake_signals.try_wait(1, [&] { return value.load(std::memory_order_acquire) == 1; }) == wait_result::ready);
    });
    if (limits.spin == 0ns) until_asleep(wake_signals, 1);
    value.store(1, std::memory_order_release);
    wake_signals.wake(1);
    waiter.join();
    CHECK_FALSE(wake_signals.asleep(1));
  }
}

TEST_CASE("a worker that is woken before it is ready sleeps again") {
  gpipe::detail::worker_signals wake_signals(2, sleeping);
  std::atomic<bool> ready{false};
  std::thread waiter([&] { CHECK(wake_signals.try_wait(1, [&] { return ready.load(); }) == wait_result::ready); });
  for (int i = 0; i < 100; ++i) {
    until_asleep(wake_signals, 1);
    wake_signals.wake(1);
  }
  ready = true;
  wake_signals.wake(1);
  waiter.join();
}

TEST_CASE("no wake is lost between two workers that sleep at the same time") {
  gpipe::detail::worker_signals wake_signals(2, sleeping);
  std::atomic<int> ball{0};
  const auto play = [&](int me) {
    for (int i = me; i < 4000; i += 2) {
      if (wake_signals.try_wait(me, [&] { return ball.load(std::memory_order_acquire) == i; }) != wait_result::ready)
        return;
      ball.store(i + 1, std::memory_order_release);
      wake_signals.progress(me);
      wake_signals.wake(1 - me);
    }
  };
  std::thread other(play, 1);
  play(0);
  other.join();
  CHECK(ball.load() == 4000);
}

TEST_CASE("a wake between the last check and the sleep is not lost") {
  gpipe::detail::worker_signals wake_signals(2, sleeping);
  std::atomic<bool> looked{false}, ready{false};
  std::thread waiter([&] {
    const auto begin = std::chrono::steady_clock::now();
    wake_signals.wait_idle(1, [&] {
      if (ready || !wake_signals.asleep(1)) return ready.load();
      looked = true;
      while (wake_signals.asleep(1)) std::this_thread::yield();  // the notifier has seen a sleeper ...
      for (int i = 0; i < 10000; ++i) gpipe::detail::pause();
      return false;  // ... that is about to sleep
    });
    CHECK(std::chrono::steady_clock::now() - begin < 9s);
  });
  while (!looked) std::this_thread::yield();
  ready = true;
  wake_signals.wake(1);
  waiter.join();
}

TEST_CASE("a failure ends every wait, spinning or asleep") {
  for (const auto& limits : {spinning, sleeping}) {
    gpipe::detail::worker_signals wake_signals(3, limits);
    std::atomic<int> checks[2]{}, others{0};
    const auto begin = std::chrono::steady_clock::now();
    const auto wait = [&](int me) {
      try {
        wake_signals.wait(
            me, {}, [&] { return ++checks[me] < 0; }, [] { return std::string(); });
      } catch (const gpipe::detail::interrupted&) {
        ++others;
      }
    };
    std::thread a(wait, 0), b(wait, 1);
    while (checks[0] < 10 || checks[1] < 10) {
      std::this_thread::yield();
      if (wake_signals.asleep(0) && wake_signals.asleep(1)) break;
    }
    wake_signals.wake_all();
    a.join();
    b.join();
    CHECK(others == 2);
    CHECK(std::chrono::steady_clock::now() - begin < 9s);  // so the failure ended the spin, not its limit
  }
}

TEST_CASE("without progress one wait ends with an error at its location, and the others are interrupted") {
  gpipe::detail::worker_signals wake_signals(3, brief);
  std::atomic<int> causes{0}, others{0};
  const auto begin = std::chrono::steady_clock::now();
  const auto wait = [&](int me) {
    try {
      wake_signals.wait(me, {.stage = me, .micro_batch = 7, .action = "receive_activation"}, never,
                        [] { return "data"; });
    } catch (const gpipe::detail::interrupted&) {
      ++others;
    } catch (const gpipe::error& e) {
      ++causes;
      CHECK(e.where().stage == me);
      CHECK(e.where().micro_batch == 7);
      CHECK(e.where().action == "receive_activation");
      CHECK(e.wrong() == "waits for data, and no worker made progress for 50 ms");
      CHECK(e.remedy().find("worker 2") != std::string::npos);
    }
  };
  std::thread a(wait, 0), b(wait, 1);
  a.join();
  b.join();
  CHECK(std::chrono::steady_clock::now() - begin >= 50ms);
  CHECK(causes == 1);
  CHECK(others == 1);
  CHECK(wake_signals.interrupted());
  CHECK_THROWS_AS(wake_signals.fail(wait_result::no_progress, 0, {}, ""),
                  gpipe::detail::interrupted);  // there was a cause already
}

TEST_CASE("progress of any worker extends the waits of all") {
  gpipe::detail::worker_signals wake_signals(2, brief);
  std::atomic<bool> ready{false};
  std::thread waiter([&] { CHECK(wake_signals.try_wait(0, [&] { return ready.load(); }) == wait_result::ready); });
  const auto begin = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - begin < 200ms) {
    wake_signals.progress(1);
    std::this_thread::yield();
  }
  ready = true;
  wake_signals.wake(0);
  waiter.join();
}

TEST_CASE("an idle wait has no deadline, and a failure does not end it") {
  gpipe::detail::worker_signals wake_signals(2, {.spin = 0ns, .deadline = 4ms});
  std::atomic<bool> ready{false};
  bool returned = false;
  std::thread waiter([&] {
    wake_signals.wait_idle(1, [&] { return ready.load(std::memory_order_acquire); });
    returned = ready.load();
  });
  until_asleep(wake_signals, 1);
  wake_signals.wake_all();
  const auto begin = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - begin < 20ms) std::this_thread::yield();
  ready.store(true, std::memory_order_release);
  wake_signals.wake(1);
  waiter.join();
  CHECK(returned);
}

#if defined(__linux__)
TEST_CASE("a worker that begins on the core of another moves to a free core, and is not pinned") {
  cpu_set_t all, one;
  sched_getaffinity(0, sizeof all, &all);
  if (CPU_COUNT(&all) < 2) return;
  int core = 0;
  while (!CPU_ISSET(core, &all)) ++core;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  sched_setaffinity(0, sizeof one, &one);

  gpipe::detail::worker_signals wake_signals(2, sleeping), crowded(2, {.yields = true}), bound(2, {.bound = true});
  for (auto* of : {&wake_signals, &crowded, &bound}) of->spread(0);
  std::thread other([&] {  // begins on the same core
    const auto here = [] { return gpipe::detail::cores::here(); };
    wake_signals.spread(1);
    CHECK(here() == core);  // it may run on no other
    sched_setaffinity(0, sizeof all, &all);
    crowded.spread(1);
    CHECK(here() == core);  // more workers than cores: there is nowhere to go
    bound.spread(1);
    CHECK(here() == core);  // its cores are its own
    wake_signals.spread(1);
    CHECK(here() != core);
    cpu_set_t after;
    sched_getaffinity(0, sizeof after, &after);
    CHECK(CPU_EQUAL(&after, &all));
  });
  other.join();
  sched_setaffinity(0, sizeof all, &all);
}
#endif

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
