// sanitizers: address

#include <gpipe/core/descriptions/rate.hpp>

#include <doctest/doctest.h>

using namespace gpipe;

TEST_CASE("a constant schedule is 1") {
  CHECK(constant{}(0) == 1);
  CHECK(constant{}(1'000'000) == 1);
}

TEST_CASE("half a cosine falls from 1 to its floor and stays there") {
  const cosine falls{.steps = 10, .floor = 0.2};
  CHECK(falls(0) == 1);
  CHECK(falls(5) == doctest::Approx(0.6));
  CHECK(falls(10) == doctest::Approx(0.2));
  CHECK(falls(1000) == falls(10));
  for (std::uint64_t step = 0; step < 10; ++step) CHECK(falls(step + 1) < falls(step));
}

TEST_CASE("a warm-up rises to 1, then another schedule begins") {
  const warm_up rises{.steps = 4, .then = cosine{.steps = 10}};
  CHECK(rises(0) == 0.25);
  CHECK(rises(3) == 1);
  CHECK(rises(4) == 1);
  CHECK(rises(9) == doctest::Approx(0.5));
  CHECK(rises(14) == doctest::Approx(0));
  CHECK(warm_up{}(0) == 1);
}
