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

/// Two that start together, each in a thread of its own: the seconds from there until both are done.
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
