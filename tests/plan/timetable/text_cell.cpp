#include <gpipe/plan/timetable/text_cell.hpp>

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace gpipe;

namespace {

std::vector<std::vector<std::string>> read(const std::string& text) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& row : detail::read_schedule_text("t.csv", text)) {
    auto& made = rows.emplace_back();
    for (const detail::text_cell& c : row)
      made.push_back(std::to_string(c.column) + ": " + std::string(detail::label_of(c.action, true).text()));
  }
  return rows;
}

}  // namespace

TEST_CASE("cells are read with their columns, in any order") {
  using rows = std::vector<std::vector<std::string>>;
  CHECK(read("0B0,,0F0, .,0F0\n") == rows{{"0: 0B0", "2: 0F0", "4: 0F0"}});
  CHECK(read("0SEND_F0,0W7\r\n\n(1F1;0I0)OVERLAP_F_B,2F0\n") == rows{{"1: 0W7"}, {}, {"0: 1F1", "0: 0I0", "1: 2F0"}});
}

TEST_CASE("a word that is no cell is an error with its row and column") {
  CHECK_THROWS_WITH_AS(detail::read_schedule_text("t.csv", "0F0\n,1X0\n"),
                       "t.csv:2: column 2 is '1X0'; write a stage, F, B, I or W, and a micro-batch, such as 0F3, or "
                       "nothing while idle",
                       error);
  CHECK_THROWS_WITH_AS(detail::read_schedule_text("t.csv", " \n"),
                       "t.csv: the schedule has no row; write a row of cells for each worker", error);
}
