#include <gpipe/core/recompute.hpp>

#include <doctest/doctest.h>

using gpipe::recompute_mode;
using gpipe::recomputes;

static_assert(recomputes(recompute_mode::always, 0) && recomputes(recompute_mode::always, 3));
static_assert(!recomputes(recompute_mode::never, 0) && !recomputes(recompute_mode::never, 3));

TEST_CASE("except-last spares the micro-batch that a stage forwards last") {
  CHECK_FALSE(recomputes(recompute_mode::except_last, 0));  // fill-drain numbers from the last
  CHECK(recomputes(recompute_mode::except_last, 1));
  CHECK(recomputes(recompute_mode::except_last, 0, 3));
  CHECK_FALSE(recomputes(recompute_mode::except_last, 3, 3));
}
