#include <gpipe/layer/contract/panels.hpp>

#include <doctest/doctest.h>

using namespace gpipe;

static_assert(packed_size(5, 32) == 5 * 32 && packed_size(5, 64) == 5 * 64);
static_assert(packed_size(65536, 65536) == std::size_t{1} << 32, "sizes do not overflow an int");

TEST_CASE("the last panel is padded to its full width") {
  CHECK(packed_size(7, 1) == 7 * 32);
  CHECK(packed_size(7, 72) == 7 * 96);
}
