// sanitizers: address

#include <gpipe/runtime/hooks/layer_timer.hpp>

#include <doctest/doctest.h>

using gpipe::layer_timer;
using gpipe::timed;

TEST_CASE("median returns -1 for a part that was not timed") {
  layer_timer timer(2);
  for (const int ns : {5, 1, 9}) timer.add(1, timed::backward_input, ns);
  CHECK(timer.median(1, timed::backward_input) == 5);
  CHECK(timer.median(1, timed::backward_parameters) == -1);
  CHECK(timer.median(0, timed::backward_input) == -1);
  timer.add(0, timed::forward, 0);
  CHECK(timer.median(0, timed::forward) == 0);
}

TEST_CASE("only the newest times count") {
  layer_timer timer(1);
  for (int i = 0; i < 1000; ++i) timer.add(0, timed::forward, 7);
  for (int i = 0; i < 129; ++i) timer.add(0, timed::forward, 3);
  CHECK(timer.median(0, timed::forward) == 3);
  CHECK(timer.median(0, timed::backward) == -1);
}
