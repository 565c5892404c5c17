#include <gpipe/plan/program/step_programs.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include <gpipe/plan/program/print.hpp>

using namespace gpipe;
using namespace gpipe::detail;

namespace {

constexpr stage_link chain[] = {{0, 1}, {1, 2}};

}  // namespace

TEST_CASE("the programs of all workers are those that lower makes") {
  for (const auto mode : {send_mode::synchronous, send_mode::buffered}) {
    const detail::step_programs all(one_f_one_b{}, 3, 4, recompute_mode::always, chain, 2, mode);
    REQUIRE(all.workers() == 3);
    for (int w = 0; w < 3; ++w) {
      std::vector<instruction> lines;
      lower(
          one_f_one_b{}, 3, 4, recompute_mode::always, chain, 2, w, [&](const instruction& it) { lines.push_back(it); },
          mode);
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
