// sanitizers: address

#include <gpipe/runtime/processes/other_processes.hpp>

#include <doctest/doctest.h>

using namespace gpipe;
using namespace gpipe::detail;

// With other processes: tests/laws/processes.cpp.

TEST_CASE("without other processes every call returns at once and changes nothing") {
  other_processes none;
  gathered_values values{.squares = {1, 2}, .partials = {3}};
  CHECK(!none.joined());
  none.begin({.action = "begin"});
  none.wait(0, {.action = "finish"});
  none.exchange(values, true);
  CHECK(values.squares == std::vector<double>{1, 2});
  CHECK(values.partials == std::vector<double>{3});
  none.ties().send_values(0);
  none.ties().send_gradients({});
  CHECK(none.ties().senders().empty());
}
