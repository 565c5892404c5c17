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
      {"core", {35, 3762}},   {"layer", {62, 8139}},    {"model", {21, 3833}},  {"plan", {84, 13235}},
      {"device", {30, 4194}}, {"transport", {7, 1148}}, {"record", {19, 2433}}, {"runtime", {49, 8844}},
      {"train", {33, 4898}},  {"cuda", {28, 5368}},     {"mpi", {12, 2281}},    {"tools", {76, 10905}}};
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
      {"checkpoint", {164, 24676}}, {"data", {49, 6429}},     {"generate", {175, 27043}}, {"images", {45, 4870}},
      {"job", {182, 28270}},        {"layer", {75, 10222}},   {"lengths", {56, 8684}},    {"make_plan", {136, 21153}},
      {"mpi", {196, 30480}},        {"plan", {181, 26550}},   {"predict", {202, 30769}},  {"report", {127, 18228}},
      {"stages", {127, 19821}},     {"testing", {89, 13640}}, {"thrust", {38, 5465}},     {"train", {208, 31625}}};
  for (const auto& header : budgets) {
    CAPTURE(header.first);
    check(size_of_reach("gpipe/" + header.first + ".hpp"), header.second);
  }
}
