#include <gpipe/transport/in_process/emulated_link.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include <gpipe/transport/in_process/channel.hpp>

using namespace std::chrono_literals;
using gpipe::slow_link;
using clock_type = slow_link::clock;

TEST_CASE("transfers of a link follow each other, each as long as its bytes take") {
  gpipe::lifeline line(2);
  slow_link link(line, 1, 3, 1'000'000);  // a byte a microsecond
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

TEST_CASE("the receiver waits for the bytes, the sender for nothing") {
  gpipe::lifeline line(2);
  gpipe::channel<> channel(line, 0, 1, 1);
  slow_link link(line, 1, 1, 1'000);
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

TEST_CASE("poison ends a wait that would take days, and waiting for a link is no silence") {
  gpipe::lifeline line(3, {.spin = 0ns, .deadline = 40ms});
  slow_link link(line, 1, 1, 1);
  link.depart(0, 1'000'000'000);
  std::atomic<bool> woken{false}, over{false};
  std::thread receiver([&] {
    try {
      link.arrive(0);
    } catch (const gpipe::detail::poisoned&) {
      woken = true;
    }
  });
  std::thread third([&] { over = line.outlast(2, [] { return false; }) == gpipe::detail::outcome::poisoned; });
  std::this_thread::sleep_for(150ms);  // longer than the deadline
  CHECK_FALSE(woken);
  line.poison();
  receiver.join();
  third.join();
  CHECK(woken);
  CHECK(over);
}
