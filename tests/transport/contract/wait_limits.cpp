// sanitizers: address

#include <gpipe/transport/contract/wait_limits.hpp>

#include <doctest/doctest.h>

using namespace std::chrono_literals;

TEST_CASE("workers that outnumber the cores do not spin") {
  CHECK(gpipe::wait_limits::of(2, 2).spin > 0ns);
  CHECK(!gpipe::wait_limits::of(2, 2).yields);
  CHECK(gpipe::wait_limits::of(3, 2).yields);
  CHECK(gpipe::wait_limits::of(64, 0).spin > 0ns);
  // change: the default deadline
  CHECK(gpipe::wait_limits::of(1).deadline == 60s);
}

TEST_CASE("a duration is written in the unit that fits") {
  CHECK(gpipe::detail::duration_text(60s) == "60 s");
  CHECK(gpipe::detail::duration_text(50ms) == "50 ms");
  CHECK(gpipe::detail::duration_text(1500ms) == "1500 ms");
  CHECK(gpipe::detail::duration_text(250us) == "250 us");
  CHECK(gpipe::detail::duration_text(-1ns) == "-1 ns");
  CHECK(gpipe::detail::duration_text(0ns) == "0 s");
}
