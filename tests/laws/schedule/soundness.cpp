// sanitizers: none

// Law 3, first part: the checker accepts every shipped schedule for every S <= 8 and M <= 16 that it admits, under
// rendezvous and under one-slot channels.

#include <gpipe/plan/program/step_programs.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include <gpipe/plan/program/print.hpp>
#include <gpipe/plan/schedule/any_schedule.hpp>
#include <gpipe/plan/timetable/check.hpp>
#include <gpipe/plan/timetable/slot_assignment.hpp>

#include "support/schedules.hpp"

using namespace gpipe;
using namespace gpipe::detail;
using namespace schedules;

namespace {

constexpr bool passes(schedule_choice choice, int stages, int micro_batches, bool skips, int memory_slots) {
  const linked_stages net(stages, skips);
  return check_schedule(choice, stages, micro_batches, recompute_mode::except_last, net.links, net.count, memory_slots)
      .ok();
}
/// A constant of its own for each schedule: together they exceed clang++'s default limit.
template <int I, int Stages, int MicroBatches>
inline constexpr bool sound =
    !admits(choices[I], Stages, MicroBatches) ||
    (passes(choices[I], Stages, MicroBatches, true, rendezvous) && passes(choices[I], Stages, MicroBatches, true, 1));
template <int Stages, int MicroBatches, int... I>
constexpr bool all_pass(std::integer_sequence<int, I...>) {
  return (sound<I, Stages, MicroBatches> && ...);
}
constexpr bool passes_in_groups(int stages, int micro_batches, int group_gradients) {
  const linked_stages net(stages, true);
  for (const int memory_slots : {rendezvous, 1})
    for (const send_mode sends : {send_mode::synchronous, send_mode::buffered})
      if ((sends == send_mode::synchronous || memory_slots != rendezvous) &&
          !check_schedule(fill_drain{}, stages, micro_batches, recompute_mode::never, net.links, net.count,
                          sends == send_mode::buffered ? micro_batches : memory_slots, sends, group_gradients)
               .ok())
        return false;
  return true;
}
static_assert(passes_in_groups(1, 1, 2) && passes_in_groups(4, 6, 2) && passes_in_groups(4, 6, 4) &&
              passes_in_groups(3, 5, 8) && passes_in_groups(8, 4, 3));

static_assert(all_pass<1, 1>(std::make_integer_sequence<int, choice_count>{}));
static_assert(all_pass<4, 6>(std::make_integer_sequence<int, choice_count>{}));
static_assert(all_pass<8, 4>(std::make_integer_sequence<int, choice_count>{}));

/// Whether a result waits for at most one other of the same link. If more micro-batches than workers go through a chunk
/// together, the first worker's next chunk begins when the last worker has several results.
bool at_once(const schedule_choice& choice, int S, int M) {
  if (choice.kind == schedule_kind::looped_bfs) return M <= choice.workers(S) + 1;
  const bool groups = choice.kind == schedule_kind::interleaved || choice.kind == schedule_kind::interleaved_zb;
  return !groups || M % choice.workers(S) == 0;
}

template <class Schedule>
void stash_slots_are_distinct(Schedule schedule) {
  for (int S = 1; S <= 8; ++S)
    for (int M = 1; M <= 16; ++M)
      for (int s = 0; s < S && schedule.admits(S, M); ++s) {
        int slot[16], owner[16];
        gpipe::detail::tick_index table(schedule, S, M);
        const int count = stash_slots(table, s, s, slot);
        REQUIRE(count == schedule.in_flight(S, M, s));
        std::fill(owner, owner + 16, -1);
        bool shared = false;
        for (int t = 0; t < schedule.ticks(S, M); ++t) {
          const cell c = schedule.at(S, M, schedule.worker_of(S, s), t);
          if (c.stage != s) continue;
          if (c.kind == action_kind::forward) {
            shared = shared || slot[c.micro_batch] >= count || owner[slot[c.micro_batch]] >= 0;
            if (schedule.trains) owner[slot[c.micro_batch]] = c.micro_batch;
          } else if (c.kind != action_kind::idle && c.kind != action_kind::backward_input) {
            shared = shared || owner[slot[c.micro_batch]] != c.micro_batch;
            owner[slot[c.micro_batch]] = -1;
          }
        }
        REQUIRE_FALSE(shared);
      }
}

/// A custom schedule: each micro-batch ends its backward before the next begins its forward.
///
///     tick     0   1   2   3   4   5   6   7
///     stage 0  F0  .   .   B0  F1  .   .   B1
///     stage 1  .   F0  B0  .   .   F1  B1  .
struct one_by_one {
  static constexpr bool trains = true;
  static constexpr const char* name() { return "one by one"; }
  static constexpr bool admits(int stages, int micro_batches) { return stages >= 1 && micro_batches >= 1; }
  static constexpr int workers(int stages) { return stages; }
  static constexpr int worker_of(int, int stage) { return stage; }
  static constexpr int ticks(int stages, int micro_batches) { return 2 * stages * micro_batches; }
  static constexpr int in_flight(int, int, int) { return 1; }
  static constexpr cell at(int stages, int, int worker, int tick) {
    const int m = tick / (2 * stages), step = tick % (2 * stages);
    if (step == worker) return {action_kind::forward, worker, m};
    if (step == 2 * stages - 1 - worker) return {action_kind::backward, worker, m};
    return {};
  }
};

}  // namespace

TEST_CASE("every schedule passes for every S <= 8 and M <= 16 that it admits") {
  for (const auto choice : choices)
    for (int S = 1; S <= 8; ++S)
      for (int M = 1; M <= 16; ++M) {
        CAPTURE(name_of(choice.kind));
        CAPTURE(S);
        CAPTURE(M);
        if (!admits(choice, S, M)) {
          CHECK_THROWS_WITH_AS(check_schedule(choice, S, M, recompute_mode::never, nullptr, 0),
                               doctest::Contains("does not admit"), error);
          continue;
        }
        for (const bool skips : {false, true}) {
          const linked_stages net(S, skips);
          CHECK(check_timetable(choice, S, M, net.links, net.count).ok());
          for (const auto mode : modes) {
            for (const int memory_slots : {rendezvous, 1, 2}) {
              const check_result found = check_schedule(choice, S, M, mode, net.links, net.count, memory_slots);
              if (!found.ok()) CAPTURE(describe(found));
              REQUIRE(found.ok());
            }
            // Programs lowered for buffered sends: two slots suffice between neighbours that use results at once.
            for (const int memory_slots : {2, M})
              if (memory_slots == M || (at_once(choice, S, M) && (!skips || choice.kind == schedule_kind::fill_drain)))
                REQUIRE(
                    check_schedule(choice, S, M, mode, net.links, net.count, memory_slots, send_mode::buffered).ok());
          }
        }
      }
}

TEST_CASE("every schedule passes on fewer workers, and each stage keeps its actions and their order") {
  const auto order = [](const schedule_choice& schedule, int S, int M, int stage) {
    std::vector<cell> cells;
    const int worker = schedule.worker_of(S, stage);
    for (int t = 0; t < schedule.ticks(S, M); ++t)
      if (const cell c = schedule.at(S, M, worker, t); c.stage == stage) cells.push_back(c);
    return cells;
  };
  for (const auto& choice : choices)
    for (int S = 1; S <= 8; ++S)
      for (const int M : {1, 4, 8, 12})
        for (int W = 1; admits(choice, S, M) && W <= choice.workers(S); ++W) {
          CAPTURE(name_of(choice.kind));
          CAPTURE(S);
          CAPTURE(M);
          CAPTURE(W);
          const schedule_choice fewer = choice.on_workers(W);
          CHECK(fewer.workers(S) == W);
          const linked_stages net(S);
          CHECK(describe(check_timetable(fewer, S, M, net.links, net.count)) == "no fault");
          for (const int memory_slots : {rendezvous, 1})
            CHECK(check_schedule(fewer, S, M, recompute_mode::except_last, net.links, net.count, memory_slots).ok());
          for (int s = 0; s < S; ++s) CHECK(order(fewer, S, M, s) == order(choice, S, M, s));
        }
}

TEST_CASE("large schedules pass when checked at start") {
  stage_link links[127];
  for (int s = 0; s < 127; ++s) links[s] = {s, s + 1};
  for (const auto& choice : choices) {
    const int S = stages_per_worker(choice.kind, choice.chunks) > 2 ? 32 * choice.chunks : 128, M = 512;
    CAPTURE(choice.name());
    CHECK(check_schedule(choice, S, M, recompute_mode::always, links, S - 1).ok());
    CHECK(check_timetable(choice, S, M, links, S - 1).ok());
  }
}

TEST_CASE("the stash bound is tight: one slot less is too few") {
  for (const auto choice : choices)
    for (int S = 1; S <= 8; ++S)
      for (int M = 1; M <= 8; ++M)
        if (admits(choice, S, M) && choice.kind != schedule_kind::forward_only)
          with_schedule(choice, [&](auto schedule) {
            const linked_stages net(S);
            programs all(schedule, S, M, recompute_mode::always, net);
            edited table(schedule, S, M);
            for (std::size_t s = 0; s < static_cast<std::size_t>(S); ++s) {
              --all.in_flight[s];
              CHECK(fault_of(all.run(rendezvous)) == "stash");
              ++all.in_flight[s];
              --table.room[s];
              CHECK(fault_of(check_timetable(table, S, M, net.links, net.count)) == "stash");
              ++table.room[s];
            }
          });
}

TEST_CASE("two micro-batches in flight never share a stash slot") {
  for (const auto choice : choices) with_schedule(choice, [](auto schedule) { stash_slots_are_distinct(schedule); });
}

TEST_CASE("parameter gradients retire in ascending order in every schedule") {
  for (const auto choice : choices)
    if (admits(choice, 8, 16))
      with_schedule(choice, [](auto schedule) {
        for (int s = 0; s < 8; ++s) {
          int next = 0;
          for (int t = 0; t < schedule.ticks(8, 16); ++t)
            if (const cell c = schedule.at(8, 16, schedule.worker_of(8, s), t);
                c.stage == s && (c.kind == action_kind::backward || c.kind == action_kind::backward_parameters))
              CHECK(c.micro_batch == next++);
          CHECK(next == (schedule.trains ? 16 : 0));
        }
      });
}

TEST_CASE("every interleaving of small programs ends in the same way, so one execution decides") {
  for (const auto choice : choices)
    for (int S = 1; S <= 4; ++S)
      for (int M = 1; M <= 6; ++M)
        if (admits(choice, S, M))
          with_schedule(choice, [&](auto schedule) {
            CAPTURE(schedule.name());
            CAPTURE(S);
            CAPTURE(M);
            const linked_stages net(S);
            for (const int memory_slots : {rendezvous, 1})
              CHECK(programs(schedule, S, M, recompute_mode::as_needed, net).explore(memory_slots) ==
                    std::pair(true, false));
            programs naive(schedule, S, M, recompute_mode::never, net, send_mode::buffered);
            const bool ends = naive.run(rendezvous).ok();
            CHECK(naive.explore(rendezvous) == std::pair(ends, !ends));
          });
}

TEST_CASE("a custom schedule is one struct") {
  for (int S = 1; S <= 4; ++S)
    for (int M = 1; M <= 6; ++M) {
      const linked_stages net(S);
      CHECK(check_timetable(one_by_one{}, S, M, net.links, net.count).ok());
      for (const int memory_slots : {rendezvous, 1})
        CHECK(programs(one_by_one{}, S, M, recompute_mode::as_needed, net).explore(memory_slots) ==
              std::pair(true, false));
    }
  CHECK(timetable(one_by_one{}, 4, 8).simulate(1, 1, 1) == 4 * 8 * 3);
}
