#include <gpipe/plan/timetable/schedule_table.hpp>

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include <gpipe/plan/options/options.hpp>
#include <gpipe/plan/program/print.hpp>
#include <gpipe/plan/schedule/any_schedule.hpp>

#include "support/schedules.hpp"

using namespace gpipe;

namespace {

std::string refusal(const std::string& text) {
  try {
    schedule_table("t.csv", text);
  } catch (const error& cause) {
    return cause.what();
  }
  return "none";
}

/// The cells of each worker, in order.
template <class Schedule>
std::vector<std::vector<cell>> order(const Schedule& schedule, int S, int M) {
  std::vector<std::vector<cell>> rows(static_cast<std::size_t>(schedule.workers(S)));
  for (int w = 0; w < schedule.workers(S); ++w)
    for (int t = 0; t < schedule.ticks(S, M); ++t)
      if (const cell c = schedule.at(S, M, w, t); c.kind != action_kind::idle)
        rows[static_cast<std::size_t>(w)].push_back(c);
  return rows;
}

}  // namespace

TEST_CASE("every shipped schedule, written and read, has the same order, workers and stash") {
  for (const schedule_choice& choice : schedules::choices)
    for (const int S : {1, 4, 6, 8})
      for (const int M : {1, 4, 9}) {
        if (!choice.admits(S, M)) continue;
        CAPTURE(choice.name());
        CAPTURE(S);
        CAPTURE(M);
        const schedule_table table("t.csv", schedule_text(choice, S, M));
        CHECK(table.trains == choice.trains);
        CHECK((table.stages() == S && table.micro_batches() == M && table.workers(S) == choice.workers(S)));
        CHECK(order(table, S, M) == order(choice, S, M));
        for (int s = 0; s < S; ++s) {
          CHECK(table.worker_of(S, s) == choice.worker_of(S, s));
          CHECK(table.in_flight(S, M, s) == choice.in_flight(S, M, s));
        }
      }
}

TEST_CASE("rows are orders, and each cell gets its first possible tick") {
  // Blanks, a mark of the byte order, line ends of Windows, columns without meaning.
  const schedule_table table("mine", "\xEF\xBB\xBF 0F0 ,0F1,0B0,0B1\r\n,1F0,1B0,1F1,.,1B1\r\n\r\n");
  CHECK(describe(timetable(table, 2, 2)) ==
        "tick     0   1   2   3   4   5\n"
        "stage 0  F0  F1  .   B0  .   B1\n"
        "stage 1  .   F0  B0  F1  B1  .\n");
  CHECK_FALSE(table.admits(2, 3));
  CHECK_FALSE(table.admits(3, 2));
}

TEST_CASE("transfers are skipped, and an overlapped pair is two cells") {
  const schedule_table table("mine",
                             "0UNSHARD,0F0,0SEND_F0,0F1,0WAIT_SEND_F0,0RECV_B0,0B0,0RECV_B1,0B1,0REDUCE_GRAD,0RESHARD\n"
                             "1RECV_F0,1F0,(1F1;1B0)OVERLAP_F_B,1SEND_B0,1B1,1WAIT_REDUCE_GRAD\n");
  CHECK(order(table, 2, 2)[1] == std::vector<cell>{{action_kind::forward, 1, 0},
                                                   {action_kind::forward, 1, 1},
                                                   {action_kind::backward, 1, 0},
                                                   {action_kind::backward, 1, 1}});
}

TEST_CASE("a table is a custom schedule of a plan") {
  const schedule_table table("mine.csv", schedule_text(zb_h1{}, 3, 4));
  const custom_schedule mine = custom_schedule_from(table);
  const plan_options o{.stages = 3, .micro_batches = 4, .schedule = schedule_kind::custom, .custom_schedule = &mine};
  const schedule_choice chosen = o.chosen_schedule();
  CHECK(chosen.splits);
  CHECK(std::string(chosen.name()) == "mine.csv");
  CHECK(order(chosen, 3, 4) == order(zb_h1{}, 3, 4));
  CHECK_THROWS_WITH_AS(timetable(chosen, 3, 5),
                       doctest::Contains("mine.csv does not admit 3 stages and 5 micro-batches"), error);
}

TEST_CASE("an error names the row, the column and the cell") {
  CHECK(refusal("") == "t.csv: the schedule has no row; write a row of cells for each worker");
  CHECK(refusal("0F0,0B0\n\n1F0,1B0\n").find("t.csv:2: ") == 0);
  for (const char* wrong : {"0X0", "F0", "0F", "0F0x", "0F-1", "0SEND_G0", "0F0;0B0", "(0F0", "0F99999999999"})
    CHECK(
        refusal(std::string("0F1,") + wrong + "\n").find(std::string("t.csv:1: column 2 is '") + wrong + "'; write") ==
        0);
  CHECK(refusal("0F0,0B0,0F7,0B7\n").find("t.csv:1: column 3 is 0F7, and the table has 4 cells for 1 stages") == 0);
  CHECK(refusal("0F0,1F0,0B0\n1B0\n").find("t.csv:2: column 1 is 1B0, and stage 1 is in row 1, too") == 0);
  CHECK(refusal("0F0,2F0,2B0,0B0,2F1,0F1\n").find("t.csv: stage 1 has no cell, and stage 2 has") == 0);
  CHECK(refusal("0F0,,0F0,0B0,0B0\n").find("t.csv:1: column 3 is 0F0, for the second time") == 0);
  CHECK(refusal("0F0,0F1,0B1,0B0\n").find("t.csv:1: column 3 is 0B1, and parameter gradients are not in the order") ==
        0);
  CHECK(refusal("0F0,0F1,0I1,0I0,0W1,0W0\n").find("t.csv:1: column 5 is 0W1, and parameter gradients") == 0);
  CHECK(refusal("0B0,0F0\n").find("t.csv:1: column 1 is 0B0, before what it needs") == 0);
  CHECK(refusal("0F0,0W0,0I0\n").find("t.csv:1: column 2 is 0W0, before what it needs") == 0);
  CHECK(refusal("0F0,0F1,0B0,\n") ==
        "t.csv:1: 0B1 is missing; write every stage and micro-batch forward and backward "
        "once");
}

TEST_CASE("workers that wait for each other are named by the first cell that waits") {
  // 0B0 needs 1B0, which comes after 1F1, which needs 0F1.
  CHECK(refusal("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n") ==
        "t.csv:1: column 2 is 0B0, which waits for ever for 1B0; order the rows so that each cell's input comes before "
        "it");
}

TEST_CASE("a cell whose input is in no row is named, and not one that waits for it") {
  CHECK(refusal("0F0,0F1,0B0,0B1\n1F1,1B0,1F2,1B1\n") ==
        "t.csv:2: column 3 is 1F2, which needs 0F2, which is in no row; write every stage and micro-batch forward and "
        "backward once");
  // As PyTorch 2.15 writes 1F1B of 3 stages and 5 micro-batches: rows 1 and 2 wait for row 3.
  CHECK(refusal("0F0,0F1,0F2,0B0,0F3,0B1,0F4,0B2,0B3,0B4\n1F0,1F1,1B0,1F2,1B1,1F3,1B2,1F4,1B3,1B4\n"
                "2F1,2B0,2F2,2B1,2F3,2B2,2F4,2B3,2F5,2B4\n")
            .find("t.csv:3: column 9 is 2F5, which needs 1F5, which is in no row") == 0);
}

TEST_CASE("time and memory grow as the text does") {
  // In quadratic time each of these would take minutes.
  const std::string blank(400'000, '\n');
  CHECK(refusal(blank + "0F0\n").find("t.csv:1: row 1 has no cell") == 0);
  CHECK(refusal("0F0\n" + blank) == "none");
  std::string chain;  // each row waits for the one below it
  for (int s = 4000; s-- > 0;) chain += std::to_string(s) + "F0\n";
  CHECK(refusal(chain) == "none");
}
