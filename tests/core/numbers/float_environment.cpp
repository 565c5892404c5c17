#include <gpipe/core/numbers/float_environment.hpp>

#include <doctest/doctest.h>

#include <cfenv>

TEST_CASE("a thread computes with the default settings, and has its own again afterwards") {
  volatile double one = 1, three = 3;
  const double nearest = one / three;
  std::fesetround(FE_UPWARD);
  const double upward = one / three;
  {
    const gpipe::detail::default_float_environment exact;
    CHECK(std::fegetround() == FE_TONEAREST);
    CHECK(one / three == nearest);
  }
  const int restored = std::fegetround();
  const double again = one / three;
  std::fesetround(FE_TONEAREST);
  CHECK(restored == FE_UPWARD);
  CHECK(again == upward);
  CHECK(upward > nearest);
}
