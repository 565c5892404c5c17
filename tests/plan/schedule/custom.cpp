#include <gpipe/plan/schedule/custom.hpp>

#include <doctest/doctest.h>

#include <string_view>

#include <gpipe/plan/options/options.hpp>

using namespace gpipe;

namespace {

struct mine : zb_h1 {
  static constexpr const char* name() { return "mine"; }
};
constexpr plan_options options{
    .stages = 3, .micro_batches = 5, .schedule = schedule_kind::custom, .custom_schedule = &custom_schedule_of<mine>};
constexpr schedule_choice chosen = options.chosen_schedule();

constexpr bool same_tables() {
  for (int w = 0; w < 3; ++w)
    for (int t = 0; t < zb_h1::ticks(3, 5); ++t)
      if (!(chosen.at(3, 5, w, t) == zb_h1::at(3, 5, w, t))) return false;
  return true;
}

}  // namespace

// A custom schedule at run time has the members of its type; whether it splits backward is found by a search.
static_assert(same_tables());
static_assert(chosen.trains && chosen.splits && chosen.ticks(3, 5) == zb_h1::ticks(3, 5));
static_assert(chosen.in_flight(3, 5, 1) == zb_h1::in_flight(3, 5, 1) && chosen.workers(3) == 3);
static_assert(std::string_view(chosen.name()) == "mine");
static_assert(!chosen.forwards().trains && chosen.forwards().in_flight(3, 5, 0) == 1);
static_assert(chosen.forwards().at(3, 5, 0, 0).kind == action_kind::forward);

TEST_CASE("schedule_kind::custom without a schedule, or a schedule without it, is rejected") {
  CHECK_THROWS_WITH_AS(require_valid(plan_options{.schedule = schedule_kind::custom}, 3),
                       doctest::Contains("give both"), error);
  CHECK_THROWS_AS(require_valid(plan_options{.custom_schedule = &custom_schedule_of<mine>}, 3), error);
}
