#include <gpipe/plan/program/lower.hpp>

#include <gpipe/plan/program/print.hpp>
#include <gpipe/plan/program/step_programs.hpp>

#include <doctest/doctest.h>

#include <string>

using namespace gpipe;
using namespace gpipe::detail;

namespace {

constexpr stage_link chain[] = {{0, 1}, {1, 2}};
constexpr stage_link with_skip[] = {{0, 1}, {0, 2}, {1, 2}};
constexpr stage_link mixed[] = {{0, 1, false}, {0, 2}, {1, 2, true}};

template <class Schedule>
std::string text(Schedule schedule, int S, int M, recompute_choice choice, const stage_link* links, int count,
                 int worker, send_mode sends = send_mode::synchronous, int group_gradients = 1) {
  return describe(step_programs(schedule, S, M, choice, links, count, sends, group_gradients).views()[worker]);
}

/// Two stages on each of two workers (0 2 | 1 3), backward in two parts: what later schedules need.
struct two_each {
  static constexpr bool trains = true;
  static constexpr const char* name() { return "two each"; }
  static constexpr bool admits(int stages, int micro_batches) { return stages == 4 && micro_batches == 1; }
  static constexpr int workers(int) { return 2; }
  static constexpr int worker_of(int, int stage) { return stage % 2; }
  static constexpr int ticks(int, int) { return 9; }
  static constexpr int in_flight(int, int, int) { return 1; }
  static constexpr cell at(int, int, int worker, int tick) {
    if (tick < 4) return tick % 2 == worker ? cell{action_kind::forward, tick, 0} : cell{};
    if (tick < 8)
      return tick % 2 != worker ? cell{action_kind::backward_input, 7 - tick, 0}
                                : cell{tick > 4 ? action_kind::backward_parameters : action_kind::idle, 8 - tick, 0};
    return worker == 0 ? cell{action_kind::backward_parameters, 0, 0} : cell{};
  }
};

constexpr instruction line_of(int worker, int line) {
  const step_programs programs(fill_drain{}, 3, 2, recompute_mode::always, chain, 2, send_mode::synchronous);
  return programs.views()[worker].lines[line];
}
static_assert(line_of(1, 0) == instruction{action_kind::receive_activation, 1, 1, 0});
static_assert(line_of(1, 1) == instruction{action_kind::forward, 1, 1, -1});
static_assert(
    step_programs(fill_drain{}, 3, 2, recompute_mode::always, chain, 2, send_mode::synchronous).views()[1].length ==
    18);

}  // namespace

TEST_CASE("fill-drain lowers to the program of each worker") {
  const auto never = recompute_mode::never;
  CHECK(text(fill_drain{}, 1, 2, never, nullptr, 0, 0) == "F1 F0 B0 B1 reduce update");
  CHECK(text(fill_drain{}, 3, 2, never, chain, 2, 0) == "F1 F1>0 F0 F0>0 B0<0 B0 B1<0 B1 reduce update");
  CHECK(text(fill_drain{}, 3, 2, never, chain, 2, 1) ==
        "F1<0 F1 F1>1 F0<0 F0 F0>1 B0<1 I0 B0>0 W0 B1<1 I1 B1>0 W1 reduce update");
  CHECK(text(fill_drain{}, 3, 2, never, chain, 2, 2) == "F1<1 F1 F0<1 F0 I0 B0>1 W0 I1 B1>1 W1 reduce update");
}

TEST_CASE("recompute starts before the gradient arrives, and may spare the last") {
  CHECK(text(fill_drain{}, 3, 2, recompute_mode::always, chain, 2, 1) ==
        "F1<0 F1 F1>1 F0<0 F0 F0>1 R0 B0<1 I0 B0>0 W0 R1 B1<1 I1 B1>0 W1 reduce update");
  CHECK(text(fill_drain{}, 1, 3, recompute_mode::except_last, nullptr, 0, 0) ==
        "F2 F1 F0 B0 R1 B1 R2 B2 reduce update");
}

TEST_CASE("parameter parts may come together, and gradients leave before") {
  const auto never = recompute_mode::never;
  CHECK(text(fill_drain{}, 1, 3, never, nullptr, 0, 0, send_mode::buffered, 2) ==
        "F2 F1 F0 I0 I1 W0 W1 I2 W2 reduce update");
  CHECK(text(fill_drain{}, 2, 3, never, chain, 1, 1, send_mode::buffered, 2) ==
        "F2<0 F2 F1<0 F1 F0<0 F0 I0 B0>0 I1 B1>0 W0 W1 I2 B2>0 W2 reduce update");
  CHECK(text(fill_drain{}, 2, 3, never, chain, 1, 0, send_mode::buffered, 8) ==
        "F2 F2>0 F1 F1>0 F0 F0>0 B0<0 I0 B1<0 I1 B2<0 I2 W0 W1 W2 reduce update");
  CHECK(text(fill_drain{}, 2, 3, never, chain, 1, 1, send_mode::synchronous, 2) ==
        "F2<0 F2 F1<0 F1 F0<0 F0 I0 B0>0 I1 B1>0 W0 W1 I2 B2>0 W2 reduce update");
}

TEST_CASE("forward-only has neither backward nor update") {
  CHECK(text(forward_only{}, 3, 2, recompute_mode::always, chain, 2, 1) == "F0<0 F0 F0>1 F1<0 F1 F1>1");
}

TEST_CASE("1F1B sends between the cells that both ends run") {
  const auto never = recompute_mode::never;
  CHECK(text(one_f_one_b{}, 3, 3, never, chain, 2, 0) ==
        "F0 F0>0 F1 F1>0 F2 B0<0 F2>0 B0 B1<0 B1 B2<0 B2 reduce update");
  CHECK(text(one_f_one_b{}, 3, 3, never, chain, 2, 1) ==
        "F0<0 F0 F0>1 F1<0 F1 B0<1 F1>1 I0 B0>0 W0 F2<0 F2 B1<1 F2>1 I1 B1>0 W1 B2<1 I2 B2>0 W2 reduce update");
  CHECK(text(one_f_one_b{}, 3, 3, never, chain, 2, 2) ==
        "F0<1 F0 I0 B0>1 W0 F1<1 F1 I1 B1>1 W1 F2<1 F2 I2 B2>1 W2 reduce update");
  CHECK(text(one_f_one_b{}, 3, 2, recompute_mode::always, chain, 2, 1) ==
        "F0<0 F0 F0>1 F1<0 F1 R0 B0<1 F1>1 I0 B0>0 W0 R1 B1<1 I1 B1>0 W1 reduce update");
}

TEST_CASE("a buffered send follows its cell") {
  CHECK(text(one_f_one_b{}, 3, 2, recompute_mode::always, chain, 2, 1, send_mode::buffered) ==
        "F0<0 F0 F0>1 F1<0 F1 F1>1 R0 B0<1 I0 B0>0 W0 R1 B1<1 I1 B1>0 W1 reduce update");
  CHECK(text(fill_drain{}, 3, 2, recompute_mode::never, with_skip, 3, 0, send_mode::buffered) ==
        "F1 F1>0 F1>1 F0 F0>0 F0>1 B0<1 B0<0 B0 B1<1 B1<0 B1 reduce update");
  CHECK(text(fill_drain{}, 3, 1, recompute_mode::never, with_skip, 3, 2, send_mode::buffered) ==
        "F0<1 F0<2 F0 I0 B0>2 B0>1 W0 reduce update");
}

TEST_CASE("a skip leaves when its receiver has nothing else to do before it") {
  const auto never = recompute_mode::never;
  CHECK(text(fill_drain{}, 3, 2, never, with_skip, 3, 0) ==
        "F1 F1>1 F1>0 F0 F0>0 F0>1 B0<1 B0<0 B0 B1<0 B1<1 B1 reduce update");
  CHECK(text(fill_drain{}, 3, 1, never, with_skip, 3, 1) == "F0<0 F0 F0>2 B0<2 I0 B0>0 W0 reduce update");
  CHECK(text(fill_drain{}, 3, 2, never, with_skip, 3, 2) ==
        "F1<1 F1<2 F1 F0<2 F0<1 F0 I0 B0>1 B0>2 W0 I1 B1>2 B1>1 W1 reduce update");
}

TEST_CASE("a link without gradient returns nothing") {
  const auto never = recompute_mode::never;
  CHECK(text(fill_drain{}, 3, 1, never, mixed, 3, 0) == "F0 F0>1 F0>0 B0<1 B0 reduce update");
  CHECK(text(fill_drain{}, 3, 1, never, mixed, 3, 1) == "F0<0 F0 F0>2 B0<2 B0 reduce update");
}

TEST_CASE("workers with several stages and split cells need no other lowering") {
  const stage_link links[] = {{0, 1}, {0, 2}, {1, 2}, {2, 3}};  // 0 and 2 are one worker's: no transfer
  const step_programs programs(two_each{}, 4, 1, recompute_mode::always, links, 4, send_mode::synchronous);
  CHECK(describe(programs.views()[0], true) ==
        "0F0 0F0>0 2F0<2 2F0 2F0>3 2R0 2B0<3 2I0 2B0>2 2W0 0R0 0B0<0 0I0 0W0 0reduce 2reduce 0update 2update");
}

TEST_CASE("a schedule may be chosen at run time") {
  const auto first = [](schedule_choice kind) { return text(kind, 2, 2, recompute_mode::never, chain, 1, 0); };
  CHECK(first(schedule_kind::fill_drain) == "F1 F1>0 F0 F0>0 B0<0 B0 B1<0 B1 reduce update");
  CHECK(first(schedule_kind::forward_only) == "F0 F0>0 F1 F1>0");
}

TEST_CASE("an invalid schedule or link is rejected and named") {
  const auto rejected = [](int S, const stage_link* links, int count, const char* message) {
    CHECK_THROWS_WITH_AS(text(fill_drain{}, S, 2, recompute_mode::never, links, count, 0), doctest::Contains(message),
                         error);
  };
  const stage_link unsorted[] = {{1, 2}, {0, 1}}, backwards[] = {{1, 0}}, beyond[] = {{1, 3}};
  rejected(0, chain, 2, "fill-drain does not admit 0 stages");
  rejected(3, unsorted, 2, "link 1 goes from stage 0 to stage 1");
  rejected(3, backwards, 1, "from stage 1 to stage 0");
  rejected(3, beyond, 1, "from stage 1 to stage 3");
}

TEST_CASE("transfers are ordered by tick, by rank and by micro-batch") {
  detail::transfer_queue transfers;
  for (int i = 0; i < 60; ++i) {
    const int permuted = 7 * i % 60;  // each of 0 ... 59 once
    transfers.put({permuted / 12, permuted / 3 % 4 - 2, {action_kind::send_activation, permuted, permuted % 3, 0}});
  }
  for (int i = 0; i < 60; ++i) {
    CHECK_FALSE(transfers.holds_one_before(i / 12 - 1));
    REQUIRE(transfers.holds_one_before(i / 12));
    CHECK(transfers.take().stage == i);
  }
  CHECK_FALSE(transfers.holds_one_before(1000));
}
