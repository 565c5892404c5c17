// sanitizers: address

#include <gpipe/runtime/hooks/layer_hooks.hpp>

#include <doctest/doctest.h>

using gpipe::detail::layer_timer;
using gpipe::detail::timed;

TEST_CASE("median returns -1 for a part that was not timed") {
  gpipe::detail::layer_timer timer(2);
  for (const int ns : {5, 1, 9}) timer.add(1, gpipe::detail::timed::backward_input, ns);
  CHECK(timer.median(1, gpipe::detail::timed::backward_input) == 5);
  CHECK(timer.median(1, gpipe::detail::timed::backward_parameters) == -1);
  CHECK(timer.median(0, gpipe::detail::timed::backward_input) == -1);
  timer.add(0, gpipe::detail::timed::forward, 0);
  CHECK(timer.median(0, gpipe::detail::timed::forward) == 0);
}

TEST_CASE("only the newest times count") {
  gpipe::detail::layer_timer timer(1);
  for (int i = 0; i < 1000; ++i) timer.add(0, gpipe::detail::timed::forward, 7);
  for (int i = 0; i < 129; ++i) timer.add(0, gpipe::detail::timed::forward, 3);
  CHECK(timer.median(0, gpipe::detail::timed::forward) == 3);
  CHECK(timer.median(0, gpipe::detail::timed::backward) == -1);
}
