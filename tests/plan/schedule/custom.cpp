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

TEST_CASE("an object with members is a custom schedule, too") {
  const folded<interleaved> object(interleaved{3}, 1);
  const custom_schedule its = custom_schedule_from(object);
  CHECK(its.trains);
  CHECK(its.workers(6) == 1);
  CHECK(its.worker_of(6, 5) == 0);
  CHECK((its.admits(6, 4) && !its.admits(8, 4)));
  CHECK(its.ticks(6, 4) == object.ticks(6, 4));
  CHECK(its.in_flight(6, 4, 1) == interleaved{3}.in_flight(6, 4, 1));
  for (int t = 0; t < its.ticks(6, 4); ++t) CHECK(its.at(6, 4, 0, t) == object.at(6, 4, 0, t));
}

TEST_CASE("schedule_kind::custom without a schedule, or a schedule without it, is rejected") {
  CHECK_THROWS_WITH_AS(require_valid(plan_options{.schedule = schedule_kind::custom}, 3),
                       doctest::Contains("give both"), error);
  CHECK_THROWS_AS(require_valid(plan_options{.custom_schedule = &custom_schedule_of<mine>}, 3), error);
}
