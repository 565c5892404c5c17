// sanitizers: none

// Law 3, second part: the checker finds every planted fault.

#include <gpipe/plan/program/step_programs.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <gpipe/plan/program/print.hpp>
#include <gpipe/plan/schedule/any_schedule.hpp>
#include <gpipe/plan/timetable/check.hpp>

#include "support/schedules.hpp"

using namespace gpipe;
using namespace gpipe::detail;
using namespace schedules;

namespace {

/// Calls `use(table)` with every table in which one cell is dropped, two neighbouring ticks of a row are swapped, a
/// cell has another micro-batch, or a stage has one slot less.
template <class Use>
void plant(const edited& whole, int S, int M, Use&& use) {
  edited table = whole;
  for (auto& row : table.rows)
    for (std::size_t t = 0; t < row.size(); ++t) {
      const cell c = row[t];
      if (c.kind == action_kind::idle) continue;
      row[t] = {};
      use(table);
      row[t] = {c.kind, c.stage, (c.micro_batch + 1) % M};
      use(table);
      row[t] = c;
      if (t + 1 == row.size()) continue;
      std::swap(row[t], row[t + 1]);
      use(table);
      std::swap(row[t], row[t + 1]);
    }
  for (int s = 0; s < S; ++s) {
    --table.room[static_cast<std::size_t>(s)];
    use(table);
    ++table.room[static_cast<std::size_t>(s)];
  }
}

}  // namespace

TEST_CASE("both checks agree on every table with a planted fault") {
  int bad = 0, good = 0;
  for (const auto choice : choices)
    for (const auto& size : {std::pair(1, 3), {2, 2}, {3, 3}, {4, 2}, {4, 5}, {4, 4}, {6, 4}})
      for (const bool skips : {false, true})
        if (const int S = size.first, M = size.second;
            admits(choice, S, M) && choice.kind != schedule_kind::forward_only)
          with_schedule(choice, [&](auto schedule) {
            const linked_stages net(S, skips);
            plant(edited(schedule, S, M), S, M, [&](const edited& table) {
              const check_result row = check_timetable(table, S, M, net.links, net.count);
              for (const int memory_slots : {rendezvous, 1}) {
                const check_result run =
                    check_schedule(table, S, M, recompute_mode::never, net.links, net.count, memory_slots);
                CAPTURE(schedule.name());
                CAPTURE(S);
                CAPTURE(M);
                CAPTURE(skips);
                CAPTURE(memory_slots);
                CAPTURE(describe(row));
                CAPTURE(describe(run));
                CHECK(row.ok() == run.ok());
              }
              (row.ok() ? good : bad) += 1;
            });
          });
  CHECK(bad > 1000);
  CHECK(good > 100);  // some swaps are harmless
}

TEST_CASE("a table of nonsense fails both checks") {
  const linked_stages net(4);
  for (const cell nonsense : {cell{action_kind::forward, 0, 0},
                              {action_kind::forward, 9, 0},
                              {action_kind::backward, 1, 77},
                              {action_kind::backward_parameters, 2, -5},
                              {action_kind::send_gradient, 3, 1},
                              {action_kind::update, -1, -1}}) {
    edited table(one_f_one_b{}, 4, 4);
    for (auto& row : table.rows)
      for (cell& c : row) c = nonsense;
    CHECK_FALSE(check_timetable(table, 4, 4, net.links, net.count).ok());
    for (const auto mode : modes) CHECK_FALSE(check_schedule(table, 4, 4, mode, net.links, net.count).ok());
  }
}

TEST_CASE("every dropped action is found") {
  for (const auto choice : choices)
    for (const auto mode : {recompute_mode::always, recompute_mode::never})
      for (const int memory_slots : {rendezvous, 1})
        with_schedule(choice, [&](auto schedule) {
          const int S = 4, M = 4;
          if (!schedule.admits(S, M)) return;
          const programs whole(schedule, S, M, mode, linked_stages(S));
          for (std::size_t w = 0; w < whole.lines.size(); ++w)
            for (std::size_t i = 0; i < whole.lines[w].size(); ++i) {
              programs cut = whole;
              cut.lines[w].erase(cut.lines[w].begin() + static_cast<std::ptrdiff_t>(i));
              const check_result found = cut.run(memory_slots);
              CAPTURE(schedule.name());
              CAPTURE(w);
              CAPTURE(std::string(label_of(whole.lines[w][i], true).text()));
              CHECK_FALSE(found.ok());
              CHECK(fault_of(found) != "deadlock");  // the missing action is named, not only its consequence
            }
        });
}

TEST_CASE("a missing receive is found at the action that needs its input") {
  const linked_stages net(3, false);
  programs all(fill_drain{}, 3, 2, recompute_mode::never, net);
  all.lines[1].erase(all.lines[1].begin());  // F1<0
  const check_result found = all.run(rendezvous);
  CHECK(fault_of(found) == "premature");
  CHECK(found.worker == 1);
  CHECK(found.position == 0);
  CHECK(found.action == instruction{action_kind::forward, 1, 1, -1});
}

TEST_CASE("a swapped pair of different actions is found or does no harm") {
  for (const auto kind : schedule_kinds)
    for (const int memory_slots : {rendezvous, 1})
      with_schedule(kind, [&, memory_slots = memory_slots](auto schedule) {
        const int S = schedule.admits(3, 3) ? 3 : 4, M = schedule.admits(3, 3) ? 3 : 2;
        const programs whole(schedule, S, M, recompute_mode::always, linked_stages(S));
        int found = 0;
        for (std::size_t w = 0; w < whole.lines.size(); ++w)
          for (std::size_t i = 0; i + 1 < whole.lines[w].size(); ++i) {
            programs swapped = whole;
            std::swap(swapped.lines[w][i], swapped.lines[w][i + 1]);
            const auto [some_end, some_stick] = swapped.explore(memory_slots);
            const check_result it = swapped.run(memory_slots);
            CAPTURE(schedule.name());
            CAPTURE(w);
            CAPTURE(describe(it));
            if (it.ok()) CHECK((some_end && !some_stick));
            if (some_stick) CHECK_FALSE(it.ok());
            found += !it.ok();
          }
        CHECK(found > (schedule.trains ? 20 : 5));
      });
  // One stage swaps two forwards and their sends, so both ends disagree.
  const linked_stages net(2, false);
  programs all(fill_drain{}, 2, 2, recompute_mode::never, net);
  std::swap(all.lines[0][0], all.lines[0][2]);
  std::swap(all.lines[0][1], all.lines[0][3]);
  CHECK(fault_of(all.run(rendezvous)) == "unpaired");
  CHECK(fault_of(all.run(1)) == "unpaired");
}

TEST_CASE("a wrong retirement order is found") {
  // Fill-drain with reversed micro-batch numbers retires M-1, ..., 0.
  programs all(fill_drain{}, 3, 4, recompute_mode::never, linked_stages(3));
  for (auto& program : all.lines)
    for (instruction& it : program)
      if (it.micro_batch >= 0) it.micro_batch = 3 - it.micro_batch;
  CHECK(fault_of(all.run(rendezvous)) == "retirement");
  CHECK(fault_of(all.run(1)) == "retirement");
}

TEST_CASE("1F1B lowered for buffered sends deadlocks under rendezvous, and ends with one slot") {
  programs all(one_f_one_b{}, 3, 5, recompute_mode::never, linked_stages(3, false), send_mode::buffered);
  CHECK(fault_of(all.run(rendezvous)) == "deadlock");
  CHECK(all.run(1).ok());
  CHECK(all.explore(rendezvous) == std::pair(false, true));
  CHECK(all.explore(1) == std::pair(true, false));
}

TEST_CASE("skips in different orders at both ends deadlock") {
  programs all(fill_drain{}, 3, 1, recompute_mode::never, linked_stages(3));
  auto& first = all.lines[0];  // F0 F0>1 F0>0: the skip goes first
  auto& last = all.lines[2];   // F0<1 F0<2 F0
  CHECK(all.run(rendezvous).ok());
  std::swap(last[0], last[1]);
  CHECK(fault_of(all.run(rendezvous)) == "deadlock");
  CHECK(all.run(1).ok());
  std::swap(first[1], first[2]);
  CHECK(all.run(rendezvous).ok());
}
