#include <gpipe/core/clock.hpp>

#include <doctest/doctest.h>

TEST_CASE("the clock advances") {
  const auto before = gpipe::detail::now_ns();
  CHECK(gpipe::detail::now_ns() >= before);
}
