#include <gpipe/tools/testing/emulated_link.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include <gpipe/transport/in_process/channel.hpp>

using namespace std::chrono_literals;
using gpipe::detail::emulated_link;
using clock_type = gpipe::detail::emulated_link::clock;

TEST_CASE("transfers follow one another, each for as long as its bytes take") {
  gpipe::detail::worker_signals wake_signals(2);
  gpipe::detail::emulated_link link(wake_signals, 1, 3, 1'000'000);  // a byte a microsecond
  const auto begin = clock_type::now();
  link.depart(2, 20'000);
  link.depart(0, 10'000);
  link.arrive(0);
  CHECK(clock_type::now() - begin >= 30ms);
  const auto later = clock_type::now();
  link.arrive(2);  // is there already
  CHECK(clock_type::now() - later < 10ms);
  link.depart(1, 10'000);  // the link was free meanwhile
  link.arrive(1);
  CHECK(clock_type::now() - later >= 10ms);
  link.depart(1, 1'000'000'000'000);
  link.reset();
  link.depart(1, 0);
  link.arrive(1);
}

TEST_CASE("the receiver waits for the bytes, the sender does not wait") {
  gpipe::detail::worker_signals wake_signals(2);
  gpipe::detail::channel<> channel(wake_signals, 0, 1, {0});
  gpipe::detail::emulated_link link(wake_signals, 1, 1, 1'000);
  clock_type::time_point sent, received;
  const auto begin = clock_type::now();
  std::thread receiver([&] {
    channel.consume(0);
    link.arrive(0);
    received = clock_type::now();
    channel.release(0);
  });
  channel.acquire(0);
  link.depart(0, 50);
  channel.publish(0, 1);
  sent = clock_type::now();
  receiver.join();
  CHECK(received - begin >= 50ms);
  CHECK(received > sent);
}

TEST_CASE("a failure ends a wait that would take days, and waiting for a link counts as progress") {
  gpipe::detail::worker_signals wake_signals(3, {.spin = 0ns, .deadline = 40ms});
  gpipe::detail::emulated_link link(wake_signals, 1, 1, 1);
  link.depart(0, 1'000'000'000);
  std::atomic<bool> woken{false}, over{false};
  std::thread receiver([&] {
    try {
      link.arrive(0);
    } catch (const gpipe::detail::interrupted&) {
      woken = true;
    }
  });
  std::thread third(
      [&] { over = wake_signals.try_wait(2, [] { return false; }) == gpipe::detail::wait_result::interrupted; });
  std::this_thread::sleep_for(150ms);  // longer than the deadline
  CHECK_FALSE(woken);
  wake_signals.wake_all();
  receiver.join();
  third.join();
  CHECK(woken);
  CHECK(over);
}
