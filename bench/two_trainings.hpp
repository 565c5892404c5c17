#pragma once

#include <barrier>
#include <thread>

#include <gpipe/runtime/step/batch.hpp>

#include "measure.hpp"

namespace bench {

template <class Training>
void run(Training& it, const gpipe::batch& on, int steps) {
  for (int i = 0; i < steps; ++i) it.step(on);
}

/// Two functions that start together, each in its own thread: the seconds from the start until both end.
template <class Training>
double run_both(Training& first, Training& second, const gpipe::batch& on, int steps) {
  double begin = 0;
  std::barrier start(2, [&begin]() noexcept { begin = now(); });
  std::thread other([&] {
    start.arrive_and_wait();
    run(second, on, steps);
  });
  start.arrive_and_wait();
  run(first, on, steps);
  other.join();
  return now() - begin;
}

}  // namespace bench
