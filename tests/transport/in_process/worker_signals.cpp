#include <gpipe/transport/in_process/worker_signals.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#if defined(__linux__)
#include <sched.h>
#endif

using namespace std::chrono_literals;
using gpipe::detail::outcome;

namespace {

constexpr gpipe::patience spinning{.spin = 10s, .deadline = 60s};
constexpr gpipe::patience sleeping{.spin = 0ns, .deadline = 60s};
constexpr gpipe::patience brief{.spin = 0ns, .deadline = 50ms};

const auto never = [] { return false; };

void until_asleep(const gpipe::lifeline& line, int worker) {
  while (!line.asleep(worker)) std::this_thread::yield();
}

}  // namespace

TEST_CASE("what is ready does not wait, poisoned or not") {
  gpipe::lifeline line(1);
  CHECK(line.outlast(0, [] { return true; }) == outcome::ready);
  line.poison();
  CHECK(line.outlast(0, [] { return true; }) == outcome::ready);
  CHECK(line.outlast(0, never) == outcome::poisoned);
  line.reset();
  CHECK_FALSE(line.poisoned());
}

TEST_CASE("a sleeper is woken by wake, a spinner needs none") {
  for (const auto& limits : {spinning, sleeping}) {
    gpipe::lifeline line(2, limits);
    std::atomic<int> value{0};
    std::thread waiter([&] {
      CHECK(line.outlast(1, [&] { return value.load(std::memory_order_acquire) == 1; }) == outcome::ready);
    });
    if (limits.spin == 0ns) until_asleep(line, 1);
    value.store(1, std::memory_order_release);
    line.wake(1);
    waiter.join();
    CHECK_FALSE(line.asleep(1));
  }
}

TEST_CASE("a wake that finds nothing ready lets the sleeper sleep on") {
  gpipe::lifeline line(2, sleeping);
  std::atomic<bool> ready{false};
  std::thread waiter([&] { CHECK(line.outlast(1, [&] { return ready.load(); }) == outcome::ready); });
  for (int i = 0; i < 100; ++i) {
    until_asleep(line, 1);
    line.wake(1);
  }
  ready = true;
  line.wake(1);
  waiter.join();
}

TEST_CASE("no wake is lost between two workers that sleep at once") {
  gpipe::lifeline line(2, sleeping);
  std::atomic<int> ball{0};
  const auto play = [&](int me) {
    for (int i = me; i < 4000; i += 2) {
      if (line.outlast(me, [&] { return ball.load(std::memory_order_acquire) == i; }) != outcome::ready) return;
      ball.store(i + 1, std::memory_order_release);
      line.progress(me);
      line.wake(1 - me);
    }
  };
  std::thread other(play, 1);
  play(0);
  other.join();
  CHECK(ball.load() == 4000);
}

TEST_CASE("a ring between the last look and the sleep is not lost") {
  gpipe::lifeline line(2, sleeping);
  std::atomic<bool> looked{false}, ready{false};
  std::thread waiter([&] {
    const auto begin = std::chrono::steady_clock::now();
    line.rest(1, [&] {
      if (ready || !line.asleep(1)) return ready.load();
      looked = true;
      while (line.asleep(1)) std::this_thread::yield();  // the notifier has seen a sleeper ...
      for (int i = 0; i < 10000; ++i) gpipe::detail::pause();
      return false;  // ... that is about to sleep
    });
    CHECK(std::chrono::steady_clock::now() - begin < 9s);
  });
  while (!looked) std::this_thread::yield();
  ready = true;
  line.wake(1);
  waiter.join();
}

TEST_CASE("poison ends every wait, from spin and from sleep") {
  for (const auto& limits : {spinning, sleeping}) {
    gpipe::lifeline line(3, limits);
    std::atomic<int> asked[2]{}, followers{0};
    const auto begin = std::chrono::steady_clock::now();
    const auto wait = [&](int me) {
      try {
        line.wait(me, {}, [&] { return ++asked[me] < 0; }, [] { return std::string(); });
      } catch (const gpipe::detail::poisoned&) {
        ++followers;
      }
    };
    std::thread a(wait, 0), b(wait, 1);
    while (asked[0] < 10 || asked[1] < 10) {
      std::this_thread::yield();
      if (line.asleep(0) && line.asleep(1)) break;
    }
    line.poison();
    a.join();
    b.join();
    CHECK(followers == 2);
    CHECK(std::chrono::steady_clock::now() - begin < 9s);  // so poison ended the spin, not its limit
  }
}

TEST_CASE("silence ends one wait with the errand, the others with poison") {
  gpipe::lifeline line(3, brief);
  std::atomic<int> causes{0}, followers{0};
  const auto begin = std::chrono::steady_clock::now();
  const auto wait = [&](int me) {
    try {
      line.wait(me, {.stage = me, .micro_batch = 7, .action = "receive_activation"}, never, [] { return "rain"; });
    } catch (const gpipe::detail::poisoned&) {
      ++followers;
    } catch (const gpipe::error& e) {
      ++causes;
      CHECK(e.where().stage == me);
      CHECK(e.where().micro_batch == 7);
      CHECK(e.where().action == "receive_activation");
      CHECK(e.wrong() == "waits for rain, and no worker made progress for 50 ms");
      CHECK(e.remedy().find("worker 2") != std::string::npos);
    }
  };
  std::thread a(wait, 0), b(wait, 1);
  a.join();
  b.join();
  CHECK(std::chrono::steady_clock::now() - begin >= 50ms);
  CHECK(causes == 1);
  CHECK(followers == 1);
  CHECK(line.poisoned());
  CHECK_THROWS_AS(line.fail(outcome::silent, 0, {}, ""), gpipe::detail::poisoned);  // there was a cause already
}

TEST_CASE("progress of any worker keeps the others patient") {
  gpipe::lifeline line(2, brief);
  std::atomic<bool> ready{false};
  std::thread waiter([&] { CHECK(line.outlast(0, [&] { return ready.load(); }) == outcome::ready); });
  const auto begin = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - begin < 200ms) {
    line.progress(1);
    std::this_thread::yield();
  }
  ready = true;
  line.wake(0);
  waiter.join();
}

TEST_CASE("a rest knows neither deadline nor poison") {
  gpipe::lifeline line(2, {.spin = 0ns, .deadline = 4ms});
  std::atomic<bool> ready{false};
  bool rested = false;
  std::thread waiter([&] {
    line.rest(1, [&] { return ready.load(std::memory_order_acquire); });
    rested = ready.load();
  });
  until_asleep(line, 1);
  line.poison();
  const auto begin = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - begin < 20ms) std::this_thread::yield();
  ready.store(true, std::memory_order_release);
  line.wake(1);
  waiter.join();
  CHECK(rested);
}

#if defined(__linux__)
TEST_CASE("a worker that begins where another one runs moves away, and is not pinned") {
  cpu_set_t all, one;
  sched_getaffinity(0, sizeof all, &all);
  if (CPU_COUNT(&all) < 2) return;
  int core = 0;
  while (!CPU_ISSET(core, &all)) ++core;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  sched_setaffinity(0, sizeof one, &one);

  gpipe::lifeline line(2, sleeping), crowded(2, {.yields = true});
  for (auto* of : {&line, &crowded}) of->spread(0);
  std::thread other([&] {  // begins on the same core
    const auto here = [] { return gpipe::detail::cores::here(); };
    line.spread(1);
    CHECK(here() == core);  // it may run on no other
    sched_setaffinity(0, sizeof all, &all);
    crowded.spread(1);
    CHECK(here() == core);  // more workers than cores: there is nowhere to go
    line.spread(1);
    CHECK(here() != core);
    cpu_set_t after;
    sched_getaffinity(0, sizeof after, &after);
    CHECK(CPU_EQUAL(&after, &all));
  });
  other.join();
  sched_setaffinity(0, sizeof all, &all);
}
#endif
