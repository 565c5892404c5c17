// sanitizers: address

#include "../examples/plan/check/checked.hpp"

#include <doctest/doctest.h>

#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include <gpipe/plan/program/simulate.hpp>
#include <gpipe/plan/timetable/schedule_table.hpp>

#include "support/schedules.hpp"

using namespace gpipe;
using namespace example;

namespace {

const stage_times unit{.forward = 1, .backward_input = 1, .backward_parameters = 1};

/// The faults of a table, one a line: "row:column: fault".
std::string faults_of(const std::string& text) {
  schedule_run it("t.csv", text);
  const auto count = static_cast<std::size_t>(it.stages());
  it.run(std::vector<stage_times>(count, unit), std::vector<std::int64_t>(count, 1));
  std::string all;
  for (const table_fault& f : it.faults())
    all += std::to_string(f.row) + ":" + std::to_string(f.column) + ": " + f.what + "\n";
  return all;
}

/// A file of this text while it is in scope.
struct written {
  std::string path;
  written(std::string name, const std::string& text) : path(std::move(name)) {
    std::ofstream(path, std::ios::binary) << text;
  }
  ~written() { std::remove(path.c_str()); }
};

/// The output of `plan check`, and the error behind it.
std::string printed(std::vector<std::string> words) {
  words.insert(words.begin(), "check");
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  std::ostringstream out;
  std::streambuf* const before = std::cout.rdbuf(out.rdbuf());
  try {
    if (check_settings chosen; chosen.read(static_cast<int>(arguments.size()), arguments.data())) print_check(chosen);
  } catch (const error& cause) {
    out << "error: " << cause.what() << '\n';
  }
  std::cout.rdbuf(before);
  return out.str();
}

/// The table of a schedule whose micro-batches have other names.
std::string renamed(const std::string& text, int micro_batches) {
  std::string made;
  for (std::size_t i = 0; i < text.size(); ++i) {
    made += text[i];
    if (text[i] < 'A' || text[i] > 'Z') continue;
    std::size_t used = 0;
    made += std::to_string(micro_batches - 1 - std::stoi(text.substr(i + 1), &used));
    i += used;
  }
  return made;
}

}  // namespace

TEST_CASE("a table of every shipped schedule takes as long as the library says, with micro-batches in any order") {
  int runs = 0;
  for (const schedule_choice& choice : schedules::choices)
    for (const int S : {1, 2, 4, 6})
      for (const int M : {1, 3, 4, 8}) {
        if (!choice.admits(S, M)) continue;
        std::vector<stage_times> times;
        std::vector<std::int64_t> bytes;
        std::vector<stage_link> links;
        for (int s = 0; s < S; ++s) {
          times.push_back({.forward = 3 + s % 3, .backward_input = 4 + s % 2, .backward_parameters = 5 - s % 4});
          bytes.push_back(7);
          if (s > 0) links.push_back({s - 1, s, true});
        }
        const std::string text = schedule_text(choice, S, M);
        // A whole backward sends its gradient at its end here, as PyTorch does, and in the library after the first
        // part.
        const bool splits = text.find('I') != text.npos, mixed = splits && text.find('B') != text.npos;
        std::vector<stage_times> of_library = times;
        for (stage_times& t : of_library)
          if (!splits) t = {.forward = t.forward, .backward_input = t.backward_input + t.backward_parameters};
        const auto stages = static_cast<std::size_t>(S);
        std::vector<std::int64_t> idle(static_cast<std::size_t>(choice.workers(S)));
        std::vector<int> peaks(stages);
        const std::int64_t expected = simulate(
            choice,
            {.stages = S, .micro_batches = M, .times = of_library.data(), .links = links.data(), .link_count = S - 1},
            {.idle = idle.data(), .peak_stash = peaks.data()});
        for (const std::string& table : {text, renamed(text, M)}) {
          schedule_run it("t.csv", table);
          const schedule_run::step made = it.run(times, bytes);
          CAPTURE(table);
          CHECK(it.faults().empty());
          CHECK(made.makespan >= expected);
          if (!mixed) CHECK(made.makespan == expected);
          for (int r = 0; r < it.ranks(); ++r) {
            const auto at = static_cast<std::size_t>(r);
            CHECK(expected - made.ranks[at].busy == idle[at]);
            if (choice.workers(S) == S && choice.trains) {
              CHECK(made.ranks[at].peak == peaks[at]);
              CHECK(made.ranks[at].peak_bytes == 7 * peaks[at]);
            }
          }
          ++runs;
        }
      }
  CHECK(runs > 200);
}

TEST_CASE("the peak of a rank counts all its stages") {
  schedule_run it("t.csv", "0F0,0F1,3F0,3F1,3B0,3B1,0B0,0B1\n1F0,2F0,1F1,2F1,2B0,1B0,2B1,1B1\n");
  const schedule_run::step made = it.run({unit, unit, unit, unit}, {1, 10, 100, 1000});
  CHECK(it.faults().empty());
  CHECK(it.stages_of(0) == std::vector<int>{0, 3});
  CHECK(made.ranks[0].peak == 4);
  CHECK(made.ranks[0].peak_bytes == 2002);
  CHECK(made.ranks[1].peak_bytes == 220);
}

TEST_CASE("a deadlock names the ranks that wait for each other") {
  CHECK(
      faults_of("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n") ==
      "0:0: deadlock: rank 0 stops before 0B0 (row 1, column 2), which waits for 1B0; rank 1 stops before 1F1 (row 2, "
      "column 2), which waits for 0F1 of rank 0, which stops, too\n");
  CHECK(faults_of("0F0,0W0,0I0\n") ==
        "0:0: deadlock: rank 0 stops before 0W0 (row 1, column 2), which waits for 0I0 of rank 0, later in the same "
        "row\n");
}

TEST_CASE("all missing and doubled cells are listed") {
  CHECK(faults_of("0F0,,0F0,0B0\n") == "1:3: 0F0 for the second time, after row 1, column 1\n");
  CHECK(faults_of("0F0,0F1,0B0,0I1\n") == "1:0: 0W1 is missing\n");
  CHECK(faults_of("0F0,0B0,0W0\n") == "1:3: 0W0 for the second time, after row 1, column 2\n");
  CHECK(faults_of("0F0,0I0,0W0,0B0\n") == "1:4: 0B0 for the second time, after row 1, column 2\n");
  CHECK(faults_of("0F0,0B0\n\n1F0,1B0\n") == "2:0: the rank has no cell\n");
  CHECK(faults_of("0F0,1F0,0B0\n1B0\n") == "2:1: 1B0: stage 1 is in row 1, too\n");
  CHECK(faults_of("0F0,2F0,2B0,0B0\n") ==
        "0:0: 1F0 is missing\n0:0: 1B0 is missing\n"
        "0:0: deadlock: rank 0 stops before 2F0 (row 1, column 2), which waits for 1F0, which is in no row\n");
  CHECK_THROWS_WITH_AS(faults_of("0F0,0B0,0F9,0B9\n"),
                       doctest::Contains("t.csv:1: column 3 is 0F9, and the table has 4 cells for 1 stages"), error);
}

TEST_CASE("the output of a check, in units") {
  const written table("check_test.csv", "0F0,0F1,0B0,0B1\n,1F0,1B0,1F1,1B1\n");
  CHECK(printed({table.path}) ==
        "check_test.csv: 2 stages on 2 ranks, 2 micro-batches: every cell once, and no deadlock\n\n"
        "rank  stages  busy    idle  kept at most\n"
        "   0       0     6  33.3 %             2\n"
        "   1       1     6  33.3 %             1\n\n"
        "A step takes 9 units, of which a forward is 1 and a backward 2; ranks are idle for 33.3 % of it.\n"
        "gpipe takes this table, too: custom_schedule_from(schedule_table(name, text)) is a schedule of a plan.\n");
  CHECK(printed({table.path, "--plain"}) ==
        "ranks 2\nstages 2\nmicro_batches 2\nrank 0 busy 6 micro_batches 2 bytes 0\n"
        "rank 1 busy 6 micro_batches 1 bytes 0\nmakespan 9\nidle 0.3333\n");
}

TEST_CASE("the output of a check, with costs and a limit") {
  const written table("check_test.csv", "0F0,0F1,0B1,0B0\n1F0,1F1,1B1,1B0\n");
  const std::string header = "name,forward_ns,backward_ns,parameter_bytes,activation_bytes,output_bytes\n";
  const written costs("check_costs.csv", header + "a,1000,2000,1024,512,512\nb,2000,3000,2048,0,0\n");
  CHECK(
      printed({"--costs", costs.path, table.path}) ==
      "check_test.csv: 2 stages on 2 ranks, 2 micro-batches: every cell once, and no deadlock\n\n"
      "rank  stages   busy    idle  kept at most  memory\n"
      "   0       0   6 us  53.8 %             2   3 KiB\n"
      "   1       1  10 us  23.1 %             2   2 KiB\n\n"
      "A step takes 13 us; ranks are idle for 38.5 % of it.\n"
      "gpipe does not take this table: check_test.csv:2: column 3 is 1B1, and parameter gradients are not in the order "
      "0, 1, 2, ...; number the micro-batches in the order of their backwards.\n");
  CHECK(printed({table.path, "--costs", costs.path, "--memory-limit", "3071"}) ==
        "check_test.csv:1: rank 0 needs 3072 bytes, and --memory-limit is 3071 bytes\n"
        "error: check_test.csv: 1 fault; correct the table\n");
  CHECK(printed({table.path, "--costs", costs.path, "--memory-limit", "3072", "--plain"}).find("rank 0 busy 6000") !=
        std::string::npos);
  const written few("check_few.csv", header + "a,1000,2000,1024,512,512\n");
  CHECK(printed({table.path, "--costs", few.path}) ==
        "error: check_few.csv: the table has 1 line, and the schedule has 2 stages; give a line a stage: the sums of "
        "its layers\n");
  const written zero("check_zero.csv", header + "a,1000,2000,1,1,1\nb,0,1,1,1,1\n");
  CHECK(printed({table.path, "--costs", zero.path}) ==
        "error: check_zero.csv: b: forward_ns is 0; give the time that the stage takes\n");
}

TEST_CASE("many faults are counted, and twenty are shown") {
  std::string row = "0F0";
  for (int m = 1; m < 40; ++m) row += ",0F" + std::to_string(m);
  const written table("check_test.csv", row + ",0B0\n");
  const std::string text = printed({table.path});
  CHECK(text.find("check_test.csv:1: 0B1 is missing\n") == 0);
  CHECK(text.find("0B20 is missing\nand 19 further faults\nerror: check_test.csv: 39 faults; correct the table\n") !=
        std::string::npos);
}
