#include <gpipe/core/descriptions/recompute.hpp>

#include <doctest/doctest.h>

using namespace gpipe;

TEST_CASE("the modes are distinct") {
  const recompute_mode modes[] = {recompute_mode::always, recompute_mode::except_last, recompute_mode::never,
                                  recompute_mode::as_needed};
  for (int a = 0; a < 4; ++a)
    for (int b = 0; b < a; ++b) CHECK(modes[a] != modes[b]);
}
