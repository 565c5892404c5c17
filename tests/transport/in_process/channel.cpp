#include <gpipe/transport/in_process/channel.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

// The law of every channel is in tests/support/channel_law.hpp. These cases test what only this channel has.

TEST_CASE("both ends in one thread") {
  gpipe::detail::worker_signals wake_signals(2);
  gpipe::detail::channel<> channel(wake_signals, 0, 1, {0, 1});
  CHECK(channel.memory_slots() == 2);
  CHECK(channel.sender() == 0);
  CHECK(channel.receiver() == 1);
  channel.acquire(1);
  channel.publish(1, 8);
  channel.acquire(0);
  channel.publish(0, 3);
  CHECK(channel.consume(0) == 3);
  CHECK(channel.consume(1) == 8);
  channel.release(1);
  channel.acquire(1);
  channel.publish(1, 0);
  CHECK(channel.consume(1) == 0);
}

TEST_CASE("a reset frees every slot") {
  gpipe::detail::worker_signals wake_signals(2);
  gpipe::detail::channel<> channel(wake_signals, 0, 1, {0, 1});
  for (const int m : {0, 1}) {
    channel.acquire(m);
    channel.publish(m, 1);
  }
  channel.reset();
  for (const int m : {0, 1}) CHECK_FALSE(channel.arrived(m));
}

TEST_CASE("micro-batches share slots") {
  gpipe::detail::worker_signals wake_signals(2);
  gpipe::detail::channel<> channel(wake_signals, 0, 1, {0, 1, 0});
  CHECK(channel.memory_slots() == 2);
  channel.acquire(0);
  CHECK_FALSE(channel.arrived(0));
  channel.publish(0, 4);
  CHECK(channel.arrived(0));
  CHECK(channel.consume(0) == 4);
  CHECK_FALSE(channel.arrived(0));
  channel.release(0);
  channel.acquire(2);
  channel.publish(2, 5);
  CHECK(channel.consume(2) == 5);
}

TEST_CASE("a hand-over counts as progress, so other workers wait on") {
  gpipe::detail::worker_signals wake_signals(
      3, {.spin = std::chrono::nanoseconds(0), .deadline = std::chrono::milliseconds(40)});
  gpipe::detail::channel<> channel(wake_signals, 0, 1, {0});
  std::atomic<bool> over{false};
  std::thread third(
      [&] { CHECK(wake_signals.try_wait(2, [&] { return over.load(); }) == gpipe::detail::wait_result::ready); });
  const auto begin = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(150)) {
    channel.acquire(0);
    channel.publish(0, 1);
    channel.consume(0);
    channel.release(0);
    std::this_thread::yield();
  }
  over = true;
  wake_signals.wake(2);
  third.join();
}

TEST_CASE("the error of a wait names slot and worker") {
  gpipe::detail::worker_signals wake_signals(
      2, {.spin = std::chrono::nanoseconds(0), .deadline = std::chrono::milliseconds(8)});
  gpipe::detail::channel<> channel(wake_signals, 0, 1, {0, 1});
  try {
    channel.consume(1, {.stage = 1, .micro_batch = 4, .action = "receive_activation"});
    FAIL("nothing was published");
  } catch (const gpipe::error& e) {
    CHECK(e.wrong() == "waits for worker 0 to fill slot 1, and no worker made progress for 8 ms");
  }
  channel.acquire(0);
  wake_signals.reset();
  try {
    channel.acquire(1);
    channel.publish(1, 1);
    channel.acquire(1, {.stage = 0});
    FAIL("nothing was released");
  } catch (const gpipe::error& e) {
    CHECK(e.wrong() == "waits for worker 1 to free slot 1, and no worker made progress for 8 ms");
    CHECK(e.where().stage == 0);
  }
}

namespace {
struct event_like {
  int recorded = 0;
};
}  // namespace

TEST_CASE("a marker belongs to the owner of its slot") {
  gpipe::detail::worker_signals wake_signals(2);
  gpipe::detail::channel<event_like> channel(wake_signals, 0, 1, {0});
  channel.acquire(0);
  channel.marker(0).recorded = 5;
  channel.publish(0, 1);
  channel.consume(0);
  CHECK(channel.marker(0).recorded == 5);
  channel.marker(0).recorded = 6;
  channel.release(0);
  channel.acquire(0);
  CHECK(channel.marker(0).recorded == 6);
}
