// sanitizers: address

#include <gpipe/runtime/hooks/layer_timer.hpp>

#include <doctest/doctest.h>

using gpipe::stopwatch;
using gpipe::timed;

TEST_CASE("medians of each slot's parts, -1 where nothing was timed") {
  stopwatch watch(2);
  for (const int ns : {5, 1, 9}) watch.take(1, timed::backward_input, ns);
  CHECK(watch.median(1, timed::backward_input) == 5);
  CHECK(watch.median(1, timed::backward_parameters) == -1);
  CHECK(watch.median(0, timed::backward_input) == -1);
  watch.take(0, timed::forward, 0);
  CHECK(watch.median(0, timed::forward) == 0);
}

TEST_CASE("the newest times count, however many there were") {
  stopwatch watch(1);
  for (int i = 0; i < 1000; ++i) watch.take(0, timed::forward, 7);
  for (int i = 0; i < 129; ++i) watch.take(0, timed::forward, 3);
  CHECK(watch.median(0, timed::forward) == 3);
  CHECK(watch.median(0, timed::backward) == -1);
}
