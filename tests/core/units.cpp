#include <gpipe/core/units.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <type_traits>

using namespace gpipe::literals;

static_assert(1_KiB == 1024 && 3_MiB == 3 * 1024 * 1024 && 8_GiB == 8589934592);
static_assert(1_KB == 1000 && 3_MB == 3'000'000 && 8_GB == 8'000'000'000);
static_assert(std::is_same_v<decltype(1_KiB), std::int64_t>);

TEST_CASE("the literals are visible in namespace gpipe") {
  using namespace gpipe;
  CHECK(2_GiB == 2048_MiB);
}
