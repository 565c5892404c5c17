// sanitizers: address

#include <gpipe/transport/contract/wait_limits.hpp>

#include <doctest/doctest.h>

using namespace std::chrono_literals;

TEST_CASE("workers that outnumber the cores do not spin") {
  CHECK(gpipe::patience::of(2, 2).spin > 0ns);
  CHECK(!gpipe::patience::of(2, 2).yields);
  CHECK(gpipe::patience::of(3, 2).yields);
  CHECK(gpipe::patience::of(64, 0).spin > 0ns);
  CHECK(gpipe::patience::of(1).deadline == 60s);
}

TEST_CASE("a time is told in the unit that fits") {
  CHECK(gpipe::detail::told(60s) == "60 s");
  CHECK(gpipe::detail::told(50ms) == "50 ms");
  CHECK(gpipe::detail::told(1500ms) == "1500 ms");
}
