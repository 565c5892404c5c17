#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

#include <gpipe/train/checkpoint/background.hpp>

using gpipe::detail::background;

TEST_CASE("one piece of work after the other; a failure is thrown once") {
  std::atomic<int> running = 0, max = 0, done = 0;
  const auto work = [&] {
    const int now = ++running;
    if (now > max) max = now;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    --running;
    ++done;
  };
  background beside;
  for (int i = 0; i < 5; ++i) beside.start(work);
  beside.finish();
  CHECK(done == 5);
  CHECK(max == 1);
  beside.start([] { throw std::runtime_error("full"); });
  CHECK_THROWS_WITH_AS(beside.start(work), "full", std::runtime_error);
  beside.finish();
  CHECK(done == 5);
}

TEST_CASE("the end waits for the work") {
  std::atomic<bool> done = false;
  {
    background beside;
    beside.start([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      done = true;
    });
  }
  CHECK(done);
}
