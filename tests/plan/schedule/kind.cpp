#include <gpipe/plan/schedule/kind.hpp>

#include <doctest/doctest.h>

#include <string>

using namespace gpipe;

constexpr int ticks_of(schedule_kind kind) {
  return with_schedule(kind, [](auto schedule) { return schedule.ticks(3, 2); });
}
static_assert(ticks_of(schedule_kind::fill_drain) == 8);
static_assert(ticks_of(schedule_kind::forward_only) == 4);

TEST_CASE("a kind becomes the schedule of its name") {
  const auto name_of = [](auto schedule) { return std::string(schedule.name()); };
  CHECK(with_schedule(schedule_kind::fill_drain, name_of) == "fill-drain");
  CHECK(with_schedule(schedule_kind::forward_only, name_of) == "forward-only");
}
