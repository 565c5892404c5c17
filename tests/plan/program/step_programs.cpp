#include <gpipe/plan/program/step_programs.hpp>

#include <gpipe/plan/program/print.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

using namespace gpipe;
using namespace gpipe::detail;

namespace {

/// Programs written as text, one a worker, in which stage w belongs to worker w.
check_result run(const std::vector<std::string>& texts, expected_step terms, int memory_slots = rendezvous) {
  std::vector<std::vector<instruction>> lines(texts.size());
  std::vector<program_view> programs;
  for (std::size_t w = 0; w < texts.size(); ++w) {
    std::string_view rest = texts[w];
    while (!rest.empty()) {
      const std::size_t end = rest.find(' ');
      instruction it = parse_instruction(rest.substr(0, end));
      if (it.stage < 0) it.stage = static_cast<int>(w);
      lines[w].push_back(it);
      rest.remove_prefix(end == rest.npos ? rest.size() : end + 1);
    }
    programs.push_back({lines[w].data(), static_cast<int>(lines[w].size())});
  }
  return check(terms, programs.data(), static_cast<int>(programs.size()), memory_slots);
}

constexpr stage_link pair[] = {{0, 1}}, chain[] = {{0, 1}, {1, 2}};
constexpr expected_step alone{.stages = 1, .micro_batches = 2};
constexpr expected_step both{.stages = 2, .micro_batches = 1, .links = pair, .link_count = 1};

void finds(const check_result& found, fault what, int worker, int position, const char* at) {
  CAPTURE(describe(found));
  CHECK(found.error == what);
  CHECK(found.worker == worker);
  CHECK(found.position == position);
  CHECK(std::string(label_of(found.action).text()) == at);
}

constexpr instruction forwards_only[] = {{action_kind::forward, 0, 1, -1}, {action_kind::forward, 0, 0, -1}};
constexpr program_view forwards{forwards_only, 2};
static_assert(check(alone, &forwards, 1).error == fault::missing);
static_assert(check({.stages = 1, .micro_batches = 2, .trains = false}, &forwards, 1).ok());

}  // namespace

TEST_CASE("right programs pass") {
  CHECK(run({"F1 F0 B0 B1 reduce update"}, alone).ok());
  CHECK(run({"F1 F0 I0 I1 W0 W1 reduce update"}, alone).ok());
  for (const int memory_slots : {rendezvous, 1, 2})
    CHECK(run({"F0 F0>0 B0<0 B0 reduce update", "F0<0 F0 I0 B0>0 W0 reduce update"}, both, memory_slots).ok());
}

TEST_CASE("each action runs once") {
  finds(run({"F1 F0 F1 B0 B1 reduce update"}, alone), fault::repeated, 0, 2, "F1");
  finds(run({"F1 F0 B0 B0 B1 reduce update"}, alone), fault::repeated, 0, 3, "B0");
  finds(run({"F1 F0 I0 W0 W0 B1 reduce update"}, alone), fault::repeated, 0, 4, "W0");
  finds(run({"F1 F0 B0 B1 reduce reduce update"}, alone), fault::repeated, 0, 5, "reduce");
  finds(run({"F1 F0 R0 B0 B1 reduce update"}, alone), fault::repeated, 0, 2, "R0");
  finds(run({"F0 F0>0 F0>0 B0<0 B0 reduce update", "F0<0 F0 I0 B0>0 W0 reduce update"}, both, 2), fault::repeated, 0, 2,
        "F0>0");
  finds(run({"F1 F0 B0 B1 reduce"}, alone), fault::missing, 0, 5, "update");
  finds(run({"F1 F0 B0 I1"}, alone), fault::missing, 0, 4, "W1");
  finds(run({"F0 B0"}, alone), fault::missing, 0, 2, "F1");
}

TEST_CASE("each action runs after its inputs") {
  finds(run({"F1 B0 F0 B1 reduce update"}, alone), fault::premature, 0, 1, "B0");
  finds(run({"F1 F0 W0 I0 B1 reduce update"}, alone), fault::premature, 0, 2, "W0");
  finds(run({"F1 F0 B0 reduce B1 update"}, alone), fault::premature, 0, 3, "reduce");
  finds(run({"F1 F0 B0 B1 update reduce"}, alone), fault::premature, 0, 4, "update");
  finds(run({"F0>0 F0 B0<0 B0 reduce update", "F0<0 F0 I0 B0>0 W0 reduce update"}, both), fault::premature, 0, 0,
        "F0>0");
  finds(run({"F0 F0>0 B0<0 B0 reduce update", "F0<0 F0 B0>0 I0 W0 reduce update"}, both), fault::premature, 1, 2,
        "B0>0");
  finds(run({"F0 F0>0 B0 B0<0 reduce update", "F0<0 F0 I0 B0>0 W0 reduce update"}, both, 1), fault::premature, 0, 2,
        "B0");
}

TEST_CASE("a flagged micro-batch is recomputed before its gradient is awaited") {
  const bool all[] = {true, true};
  expected_step terms = both;
  terms.recomputed = all;
  const std::string last = "F0<0 F0 R0 I0 B0>0 W0 reduce update";
  CHECK(run({"F0 F0>0 R0 B0<0 B0 reduce update", last}, terms).ok());
  finds(run({"F0 F0>0 B0<0 R0 B0 reduce update", last}, terms), fault::premature, 0, 2, "B0<0");
  finds(run({"F0 F0>0 R0 B0<0 B0 reduce update", "F0<0 F0 I0 B0>0 W0 reduce update"}, terms), fault::premature, 1, 2,
        "I0");
  const bool first_only[] = {true, false};
  expected_step one = alone;
  one.recomputed = first_only;
  CHECK(run({"F0 F1 R0 B0 B1 reduce update"}, one).ok());
  finds(run({"F0 F1 B0 B1 reduce update"}, one), fault::premature, 0, 2, "B0");
  finds(run({"F0 F1 R0 B0 R1 B1 reduce update"}, one), fault::repeated, 0, 4, "R1");
}

TEST_CASE("sends and receives pair") {
  finds(run({"F0 B0 reduce update", "F0<0 F0 I0 B0>0 W0 reduce update"}, both), fault::premature, 0, 1, "B0");
  finds(run({"F0 B0<0 B0 reduce update", "F0<0 F0 I0 B0>0 W0 reduce update"}, both), fault::unpaired, 1, 0, "F0<0");
  expected_step two = both;
  two.micro_batches = 2;
  const std::string sends = "F1 F1>0 F0 F0>0 B0<0 B0 B1<0 B1 reduce update";
  for (const int memory_slots : {rendezvous, 1, 2})
    CHECK(run({sends, "F0<0 F0 F1<0 F1 I0 B0>0 W0 I1 B1>0 W1 reduce update"}, two, memory_slots).error ==
          fault::unpaired);
  expected_step forward = both;
  forward.trains = false;
  CHECK(run({"F0 F0>0", "F0<0 F0"}, forward).ok());
  finds(run({"F0 F0>0", ""}, forward), fault::unpaired, 0, 1, "F0>0");
  finds(run({"F0 F0>0", ""}, forward, 1), fault::missing, 1, 0, "F0");
}

TEST_CASE("an unknown stage, micro-batch or link is named") {
  finds(run({"F2 F1 F0 B0 B1"}, alone), fault::unknown, 0, 0, "F2");
  finds(run({"1F1 F0 B0 B1"}, alone), fault::unknown, 0, 0, "F1");
  finds(run({"F1 F1>0 F0 B0 B1"}, alone), fault::unknown, 0, 1, "F1>0");
  finds(run({"F0 F0<0", "F0<0 F0"}, both), fault::unknown, 0, 1, "F0<0");
  finds(run({"1F0", "F0<0 F0"}, both), fault::unknown, 0, 0, "F0");
  const stage_link one_way[] = {{0, 1, false}};
  expected_step terms = both;
  terms.links = one_way;
  finds(run({"F0 F0>0 B0<0", "F0<0 F0 I0 B0>0 W0"}, terms), fault::unknown, 1, 3, "B0>0");
}

TEST_CASE("a circle of waiting workers is a deadlock under rendezvous, and none with a slot between") {
  expected_step terms = both;
  terms.micro_batches = 2;
  const std::string first = "F0 F0>0 F1 F1>0 B0<0 B0 B1<0 B1 reduce update";
  const std::string second = "F0<0 F0 I0 B0>0 W0 F1<0 F1 I1 B1>0 W1 reduce update";
  finds(run({first, second}, terms), fault::deadlock, 0, 3, "F1>0");
  CHECK(run({first, second}, terms, 1).ok());
}

TEST_CASE("parameter gradients retire in ascending order") {
  finds(run({"F0 F1 B1 B0 reduce update"}, alone), fault::retirement, 0, 2, "B1");
  finds(run({"F0 F1 I1 I0 W1 W0 reduce update"}, alone), fault::retirement, 0, 4, "W1");
}

TEST_CASE("the stash stays within its bound") {
  const int one[] = {1};
  expected_step terms = alone;
  terms.in_flight = one;
  CHECK(run({"F0 B0 F1 B1 reduce update"}, terms).ok());
  finds(run({"F0 F1 B0 B1 reduce update"}, terms), fault::stash, 0, 1, "F1");
  terms.trains = false;
  CHECK(run({"F0 F1"}, terms).ok());
  const int ones[] = {1, 1};
  finds(run({"F0 F0>0 F1 F1>0", "F0<0 F1<0 F0 F1"},
            {.stages = 2, .micro_batches = 2, .links = pair, .link_count = 1, .trains = false, .in_flight = ones}),
        fault::stash, 1, 1, "F1<0");
}

TEST_CASE("two stages of one worker need no transfer") {
  const int same[] = {0, 0};
  expected_step terms = both;
  terms.worker_of = same;
  CHECK(run({"0F0 1F0 1I0 0I0 1W0 0W0 0reduce 1reduce 0update 1update"}, terms).ok());
  finds(run({"1F0 0F0 1B0 0B0"}, terms), fault::premature, 0, 0, "F0");
  finds(run({"0F0 1F0 0B0 1B0"}, terms), fault::premature, 0, 2, "B0");
  finds(run({"0F0 0F0>0 1F0 1B0 0B0"}, terms), fault::unknown, 0, 1, "F0>0");
}

TEST_CASE("programs with more lines than an int counts are rejected") {
  const stage_link links[] = {{0, 1}, {1, 2}, {2, 3}};
  CHECK_THROWS_WITH_AS(check_schedule(fill_drain{}, 4, 153'391'690, recompute_mode::never, links, 3),
                       doctest::Contains("more lines than an int counts"), error);
}

TEST_CASE("the programs of all workers are those that lower makes") {
  for (const auto mode : {send_mode::synchronous, send_mode::buffered}) {
    const detail::step_programs all(one_f_one_b{}, 3, 4, recompute_mode::always, chain, 2, mode);
    REQUIRE(all.workers() == 3);
    for (int w = 0; w < 3; ++w) {
      std::vector<instruction> lines;
      detail::tick_index table(one_f_one_b{}, 3, 4);
      const bool recomputed[] = {true, true, true, true, true, true, true, true, true, true, true, true};
      lower(
          table, recomputed, chain, 2, w, [&](const instruction& line) { lines.push_back(line); }, mode);
      CHECK(describe(all.views()[w]) == describe(program_view{lines.data(), static_cast<int>(lines.size())}));
    }
    const expected_step terms = all.expected();
    CHECK(terms.in_flight[0] == 3);
    CHECK(terms.worker_of[2] == 2);
    CHECK(terms.recomputed[0]);
    CHECK(terms.trains);
  }
}

TEST_CASE("a link's slots hold activations until the parameter gradients, and gradients likewise") {
  detail::tick_index<one_f_one_b> table(one_f_one_b{}, 3, 6);
  std::vector<int> stash(6, -1), returned(6, -1);
  detail::assign_link_slots(table, chain[1], 0, stash.data(), returned.data());
  CHECK(stash == std::vector<int>{0, 1, 0, 1, 0, 1});
  CHECK(returned == std::vector<int>{0, 1, 0, 1, 0, 1});
  std::fill(returned.begin(), returned.end(), -1);
  detail::assign_link_slots(table, {1, 2, false}, 0, stash.data(), returned.data());
  CHECK(returned == std::vector<int>(6, -1));
}

TEST_CASE("what the schedule does not admit is refused, and programs that an int cannot count") {
  CHECK_THROWS_WITH_AS(detail::step_programs(fill_drain{}, 0, 1, recompute_mode::never, chain, 0, send_mode::buffered),
                       doctest::Contains("does not admit"), error);
  CHECK_THROWS_WITH_AS(
      detail::step_programs(fill_drain{}, 3, 153'391'690, recompute_mode::never, chain, 2, send_mode::buffered),
      doctest::Contains("more lines than an int counts"), error);
}
