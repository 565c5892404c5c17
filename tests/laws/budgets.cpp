// sanitizers: none

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "support/sources.hpp"

// The library gets lighter: each room has a budget of lines, and each header that users include has one of the headers
// and lines that it reaches. Budgets only fall: lower one when a change lowers its number.

namespace {

using sources::read;

const std::filesystem::path include = sources::root / "include";

int lines_of(std::string_view text) { return static_cast<int>(std::count(text.begin(), text.end(), '\n')); }

struct size {
  int headers = 0, lines = 0;
};

size size_of_room(const std::string& room) {
  size total;
  for (const auto& file : sources::files_of("include/gpipe/" + room, {".hpp"})) {
    ++total.headers;
    total.lines += lines_of(read(file));
  }
  return total;
}

/// All headers of the library behind one, under every condition.
void reach(const std::string& header, std::map<std::string, int>& reached) {
  if (reached.count(header) != 0) return;
  const std::string text = read(include / header);
  REQUIRE(!text.empty());
  reached[header] = lines_of(text);
  constexpr std::string_view begin = "\n#include <gpipe";
  for (std::size_t found = text.find(begin); found != text.npos; found = text.find(begin, found + 1)) {
    const std::size_t first = found + begin.size() - 5, end = text.find('>', first);
    reach(text.substr(first, end - first), reached);
  }
}
size size_of_reach(const std::string& header) {
  std::map<std::string, int> reached;
  reach(header, reached);
  size total{.headers = static_cast<int>(reached.size())};
  for (const auto& [name, lines] : reached) total.lines += lines;
  return total;
}

/// A budget that is a good deal too large is to be lowered.
void check(size found, size budget) {
  CHECK(found.headers <= budget.headers);
  CHECK(found.lines <= budget.lines);
  CHECK(found.headers > budget.headers - 8);
  CHECK(found.lines > budget.lines - 300);
}

}  // namespace

TEST_CASE("rooms stay within their budgets of headers and lines") {
  const std::map<std::string, size> budgets = {
      {"core", {55, 3927}},   {"layer", {75, 8673}},     {"model", {22, 3867}},  {"plan", {109, 13636}},
      {"device", {38, 4458}}, {"transport", {13, 1210}}, {"record", {32, 2651}}, {"runtime", {82, 9264}},
      {"train", {48, 5066}},  {"cuda", {39, 5481}},      {"mpi", {18, 2357}},    {"tools", {95, 11238}}};
  for (const auto& room : budgets) {
    CAPTURE(room.first);
    check(size_of_room(room.first), room.second);
  }
  for (const auto& entry : std::filesystem::directory_iterator(include / "gpipe")) {  // no room is without a budget
    const std::string name = entry.path().filename().string();
    if (entry.is_directory() && size_of_room(name).headers > 0) CHECK_MESSAGE(budgets.count(name) == 1, name);
  }
}

TEST_CASE("headers that users include reach no more headers and lines than their budgets") {
  const std::map<std::string, size> budgets = {
      {"checkpoint", {254, 25598}}, {"data", {61, 6389}},    {"generate", {224, 24413}}, {"images", {60, 4833}},
      {"job", {224, 25319}},        {"layer", {94, 10734}},  {"lengths", {71, 8761}},    {"make_plan", {179, 21546}},
      {"mpi", {244, 27603}},        {"plan", {232, 27425}},  {"predict", {289, 31981}},  {"report", {169, 18499}},
      {"stages", {162, 19923}},     {"testing", {74, 8273}}, {"thrust", {51, 5732}},     {"train", {296, 32855}}};
  for (const auto& header : budgets) {
    CAPTURE(header.first);
    check(size_of_reach("gpipe/" + header.first + ".hpp"), header.second);
  }
}
