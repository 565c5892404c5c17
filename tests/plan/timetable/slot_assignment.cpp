#include <gpipe/plan/timetable/slot_assignment.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include <gpipe/plan/memory/derive_requirements.hpp>
#include <gpipe/plan/schedule/any_schedule.hpp>

using namespace gpipe;
using namespace gpipe::detail;
using detail::tick_index;

namespace {

constexpr int count_of_arrivals(schedule_kind kind, int S, int M, int from, int to) {
  tick_index<schedule_choice> table(kind, S, M);
  return stash_slots(table, from, to);
}

// A slot belongs to one micro-batch until it is not needed any more.
template <class Assign>
void are_distinct(tick_index<schedule_choice>& table, int from, int detail::cell_ticks::*begin, int to,
                  int detail::cell_ticks::*end, Assign&& memory_slots) {
  const int M = table.micro_batches();
  std::vector<int> slot(static_cast<std::size_t>(M), -1);
  const int count = memory_slots(slot.data());
  CHECK(count == memory_slots(nullptr));
  for (int m = 0; m < M; ++m) {
    const auto at = [&](int i) { return slot[static_cast<std::size_t>(i)]; };
    REQUIRE((at(m) >= 0 && at(m) < count));
    for (int other = 0; other < m; ++other)
      if (at(other) == at(m))
        REQUIRE((table.of(to)[other].*end < table.of(from)[m].*begin ||
                 table.of(to)[m].*end < table.of(from)[other].*begin));
  }
}

}  // namespace

// The time of a step in which a forward, an input part and a parameter part take 1 each, and a gradient leaves after
// the input part: the longest path, with waits for the slots of gradients or without.
int time_of_step(schedule_choice schedule, int S, int M, bool waits_for_slots) {
  tick_index<schedule_choice> table(schedule, S, M);
  const auto at = [M](int s, int m) { return static_cast<std::size_t>(s * M + m); };
  const auto size = static_cast<std::size_t>(S * M);
  std::vector<int> forward(size), input(size), parameters(size);  // the ends
  std::vector<std::vector<int>> slot(static_cast<std::size_t>(S), std::vector<int>(static_cast<std::size_t>(M)));
  for (int s = 1; s < S; ++s) returned_slots(table, s, s - 1, slot[static_cast<std::size_t>(s)].data());
  for (bool changed = true; changed;) {
    changed = false;
    const auto ends = [&](int& end, int begin) {
      changed |= end != begin + 1;
      end = begin + 1;
    };
    for (int worker = 0; worker < table.schedule().workers(S); ++worker) {
      int before = 0;
      table.walk(worker, [&](int, const cell& c) {
        const int s = c.stage, m = c.micro_batch;
        if (c.kind == action_kind::forward) {
          ends(forward[at(s, m)], std::max(before, s > 0 ? forward[at(s - 1, m)] : 0));
          before = forward[at(s, m)];
          return;
        }
        int begin = std::max(before, s + 1 < S ? input[at(s + 1, m)] : forward[at(s, m)]);
        const std::vector<int>& its = slot[static_cast<std::size_t>(s)];
        for (int other = 0; other < m && s > 0 && waits_for_slots; ++other)
          if (its[static_cast<std::size_t>(other)] == its[static_cast<std::size_t>(m)])
            begin = std::max(begin, parameters[at(s - 1, other)]);
        ends(input[at(s, m)], begin);
        ends(parameters[at(s, m)], begin + 1);
        before = parameters[at(s, m)];
      });
    }
  }
  return *std::max_element(parameters.begin(), parameters.end());
}

// Work grows with M alone where no slot is used twice: for this M, M x M steps are more than any compiler takes.
constexpr bool holds_all(int M, bool falls) {
  const detail::zeroed_array<int> ticks(2 * M);
  for (int m = 0; m < M; ++m) ticks[m] = falls ? M - m : m, ticks[M + m] = 2 * M - m;
  return detail::assign_slots(M, ticks.data(), ticks.data() + M, 1, nullptr) == M;
}
static_assert(holds_all(12'000, false));
static_assert(holds_all(12'000, true));

// A sender that writes ahead takes one slot more than the receiver has micro-batches in flight.
static_assert(count_of_arrivals(schedule_kind::one_f_one_b, 4, 8, 0, 0) == 4);
static_assert(count_of_arrivals(schedule_kind::one_f_one_b, 4, 8, 0, 1) == 4 && one_f_one_b::in_flight(4, 8, 1) == 3);
static_assert(count_of_arrivals(schedule_kind::one_f_one_b, 4, 8, 2, 3) == 2 && one_f_one_b::in_flight(4, 8, 3) == 1);
static_assert(count_of_arrivals(schedule_kind::fill_drain, 4, 8, 2, 3) == 8);

static_assert(on_the_way(true) == 2 && on_the_way(false) == 0);

TEST_CASE("slots are distinct while they are taken, between any two stages of any schedule") {
  using detail::cell_ticks;
  for (const schedule_kind kind : schedule_kinds)
    for (const int S : {1, 2, 4, 6})
      for (const int M : {1, 2, 3, 6, 12}) {
        const schedule_choice schedule(kind);
        if (!schedule.admits(S, M)) continue;
        tick_index<schedule_choice> table(schedule, S, M);
        const auto last = schedule.trains ? &cell_ticks::retired : &cell_ticks::forward;
        for (int a = 0; a < S; ++a) {
          for (int b = a; b < S; ++b)
            are_distinct(table, a, &cell_ticks::forward, b, last,
                         [&](int* to) { return stash_slots(table, a, b, to); });
          if (!schedule.trains) continue;
          for (int b = 0; b < a; ++b)
            are_distinct(table, a, &cell_ticks::backward, b, last,
                         [&](int* to) { return returned_slots(table, a, b, to); });
          are_distinct(table, a, &cell_ticks::backward, a, last, [&](int* to) { return held_slots(table, a, to); });
        }
      }
}

TEST_CASE("the slot that is free longest is taken") {
  const int begin[] = {0, 1, 4, 5}, end[] = {2, 1, 6, 6};
  int slot[4];
  CHECK(detail::assign_slots(4, begin, end, 1, slot) == 2);
  CHECK(std::vector<int>(slot, slot + 4) == std::vector<int>{0, 1, 1, 0});
}

TEST_CASE("a slot is taken again only in a later tick") {
  const int begin[] = {0, 2}, end[] = {2, 3};
  CHECK(detail::assign_slots(2, begin, end, 1, nullptr) == 2);
}

TEST_CASE("micro-batches that come in any order get their slots by tick") {
  const int begin[] = {0, 5, 4}, end[] = {5, 9, 4};  // the last one, which is done in tick 4, comes before the second
  int slot[3];
  CHECK(detail::assign_slots(3, begin, end, 1, slot) == 2);
  CHECK(std::vector<int>(slot, slot + 3) == std::vector<int>{0, 1, 1});
}

TEST_CASE("gradients have two slots, one written while the other is read; one micro-batch has one") {
  tick_index<schedule_choice> many(schedule_kind::one_f_one_b, 2, 4), single(schedule_kind::one_f_one_b, 2, 1);
  CHECK(returned_slots(many, 1, 0) == 2);
  CHECK(returned_slots(single, 1, 0) == 1);
}

TEST_CASE("no equal stage waits for a slot of a gradient") {
  for (const schedule_choice& schedule : {schedule_choice(schedule_kind::fill_drain),
                                          {schedule_kind::one_f_one_b},
                                          {schedule_kind::looped_bfs, 2},
                                          {schedule_kind::looped_bfs, 3},
                                          {schedule_kind::interleaved, 2},
                                          {schedule_kind::interleaved, 4}})
    for (const int K : {2, 3, 4, 8})
      for (const int M : {2, 4, 8, 12, 16, 24}) {
        const int S = K * schedule.chunks;
        if (!schedule.admits(S, M)) continue;
        INFO(std::string(schedule.name()), ", S = ", S, ", M = ", M);
        CHECK(time_of_step(schedule, S, M, true) == time_of_step(schedule, S, M, false));
      }
}

TEST_CASE("a schedule's formula for slots equals the count from its rows") {
  const auto check = [](auto schedule) {
    for (int S = 1; S <= 9; ++S)
      for (int M = 1; M <= 20; ++M) {
        tick_index<decltype(schedule)> table(schedule, S, M);
        for (int a = 0; a < S; ++a)
          for (int b = a; b < S; ++b)
            for (const int late : {0, 1, 2, 3}) {
              REQUIRE(schedule.stash_slots(S, M, a, b, late) == stash_slots(table, a, b, nullptr, late));
              if (a == b) continue;
              if constexpr (requires { schedule.returned_slots(S, M, b, a, late); })
                REQUIRE(schedule.returned_slots(S, M, b, a, late) == returned_slots(table, b, a, nullptr, late));
              if constexpr (requires { schedule.returned_slots(S, M, b, a, late, 1); })
                for (int G = 2; G <= 8 && G <= M; ++G) {
                  tick_index<decltype(schedule)> grouped(schedule, S, M, G);
                  REQUIRE(schedule.returned_slots(S, M, b, a, late, G) == returned_slots(grouped, b, a, nullptr, late));
                }
            }
      }
  };
  check(fill_drain{});
  check(one_f_one_b{});
  check(forward_only{});
}
