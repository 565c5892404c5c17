#include <gpipe/plan/schedule/contract/scheduler.hpp>

#include <gpipe/plan/schedule/interleaved.hpp>
#include <gpipe/plan/schedule/zb_v.hpp>

#include <doctest/doctest.h>

namespace {

struct one_at_a_time {
  static constexpr bool trains = false;
  static constexpr const char* name() { return "one at a time"; }
  static constexpr bool admits(int stages, int) { return stages == 1; }
  static constexpr int workers(int) { return 1; }
  static constexpr int worker_of(int, int) { return 0; }
  static constexpr int ticks(int, int micro_batches) { return micro_batches; }
  static constexpr int in_flight(int, int, int) { return 1; }
  static constexpr gpipe::cell at(int, int, int, int tick) { return {gpipe::action_kind::forward, 0, tick}; }
};
/// A schedule with a parameter, which its members use.
struct first_of {
  int wait;
  static constexpr bool trains = false;
  static constexpr const char* name() { return "first of"; }
  constexpr bool admits(int stages, int) const { return stages == 1 && wait >= 0; }
  static constexpr int workers(int) { return 1; }
  static constexpr int worker_of(int, int) { return 0; }
  constexpr int ticks(int, int micro_batches) const { return wait + micro_batches; }
  static constexpr int in_flight(int, int, int) { return 1; }
  constexpr gpipe::cell at(int, int, int, int tick) const {
    return tick < wait ? gpipe::cell{} : gpipe::cell{gpipe::action_kind::forward, 0, tick - wait};
  }
};
struct without_table {
  static constexpr const char* name() { return "none"; }
};
static_assert(gpipe::scheduler<one_at_a_time>);
static_assert(gpipe::scheduler<first_of>);
static_assert(!gpipe::scheduler<without_table>);

}  // namespace

TEST_CASE("the error for numbers that are not admitted names the schedule") {
  CHECK_NOTHROW(gpipe::detail::require_admitted(one_at_a_time{}, 1, 2));
  CHECK_THROWS_WITH_AS(gpipe::detail::require_admitted(one_at_a_time{}, 3, 2),
                       doctest::Contains("one at a time does not admit 3 stages and 2 micro-batches"), gpipe::error);
  CHECK_NOTHROW(gpipe::detail::require_admitted(first_of{2}, 1, 2));
  CHECK_THROWS_AS(gpipe::detail::require_admitted(first_of{-1}, 1, 2), gpipe::error);
}

TEST_CASE("the remedy contains the nearest numbers that are admitted") {
  const auto rejected = [](const auto& schedule, int S, int M, const char* remedy) {
    CHECK_THROWS_WITH_AS(gpipe::detail::require_admitted(schedule, S, M), doctest::Contains(remedy), gpipe::error);
  };
  rejected(gpipe::interleaved{3}, 9, 7, "; choose 3 or 12 stages, or 6 or 8 micro-batches, or another schedule");
  rejected(gpipe::interleaved{}, 3, 8, "; choose 2 or 4 stages, or another schedule");
  rejected(gpipe::zb_v{}, 1, 8, "; choose 2 stages, or another schedule");
  rejected(first_of{-1}, 1, 2, "; choose another schedule");
}
