// sanitizers: none

#include <doctest/doctest.h>

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "support/sources.hpp"

// The positions of files, and their lengths. A header's test is at the mirrored path, or tests/coverage.md has a line
//
//     | `plan/stages/cut.hpp` | `plan/cut/choose_cut` | why |
//
// that names the test that runs the header.

namespace {

using sources::read;
using sources::root;

using names = std::set<std::string>;

using endings = std::initializer_list<std::string_view>;

/// The files in a folder that end with one of `endings`, without the ending.
names names_in(const char* folder, endings listed) {
  names found;
  for (auto file : sources::files_of(folder, listed)) {
    file.replace_extension();
    found.insert(sources::name_of(file, folder));
  }
  return found;
}

/// The lines of tests/coverage.md: a header, without its ending, and the test that runs it.
std::map<std::string, std::string> covered_by(const std::string& document, std::string& wrong) {
  std::map<std::string, std::string> found;
  for (const std::string& line : sources::lines_of(document)) {
    if (line.rfind("| `", 0) != 0) continue;
    std::string cells[3];
    std::size_t begin = 1;
    for (auto& cell : cells) {
      const auto end = std::min(line.find('|', begin), line.size());
      for (const char c : line.substr(begin, end - begin))
        if (c != ' ' && c != '`') cell += c;
      begin = std::min(end + 1, line.size());
    }
    const auto ending = cells[0].rfind(".hpp");
    if (ending == std::string::npos || cells[1].empty() || cells[2].empty())
      wrong += line + " is no line of header, test and reason\n";
    else if (!found.emplace(cells[0].substr(0, ending), cells[1]).second) wrong += cells[0] + " has two lines\n";
  }
  return found;
}

std::string uncovered(const names& headers, const names& tests, const std::map<std::string, std::string>& covered) {
  std::string wrong;
  for (const auto& header : headers)
    if (!tests.count(header) && !covered.count(header)) wrong += header + ".hpp has no test and no line\n";
  for (const auto& [header, test] : covered) {
    if (!headers.count(header)) wrong += header + ".hpp has a line and does not exist\n";
    if (tests.count(header)) wrong += header + ".hpp has a test of its own, and a line\n";
    if (!tests.count(test)) wrong += header + ".hpp is run by " + test + ", which does not exist\n";
  }
  return wrong;
}

std::string longer_than(std::size_t limit, const char* folder, endings listed) {
  std::string wrong;
  for (const auto& file : sources::files_of(folder, listed))
    if (const auto lines = sources::lines_of(read(file)).size(); lines > limit)
      wrong += sources::name_of(file) + " has " + std::to_string(lines) + " lines\n";
  return wrong;
}

/// The lines of sources that are wider than `limit` columns; a letter of UTF-8 is one.
std::string wider_than(std::ptrdiff_t limit, const char* folder) {
  std::string wrong;
  for (const auto& file : sources::files_of(folder, {".hpp", ".cpp"})) {
    int number = 1;
    for (const std::string& line : sources::lines_of(read(file))) {
      if (std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xC0) != 0x80; }) > limit)
        wrong += sources::name_of(file) + ":" + std::to_string(number) + "\n";
      ++number;
    }
  }
  return wrong;
}

}  // namespace

TEST_CASE("a header without a test, and a line without its header or its test, is found") {
  const std::string table(
      "| header | run by | why |\n|---|---|---|\n| `b.hpp` | `a` | part of a |\n| `c.hpp` | `x` | y |\n");
  std::string wrong;
  auto covered = covered_by(table, wrong);
  CHECK(wrong == "");
  CHECK(
      uncovered({"a", "b", "d"}, {"a"}, covered) ==
      "d.hpp has no test and no line\nc.hpp has a line and does not exist\nc.hpp is run by x, which does not exist\n");
  covered.erase("c");
  CHECK(uncovered({"a", "b"}, {"a"}, covered) == "");
  CHECK(uncovered({"a", "b"}, {"a", "b"}, covered) == "b.hpp has a test of its own, and a line\n");
  covered_by("| `b.hpp` | `a` | |\n", wrong);
  CHECK(wrong != "");
}

TEST_CASE("every header has a test at the mirrored path, or a line in tests/coverage.md") {
  auto headers = names_in("include/gpipe", {".hpp"});
  for (auto i = headers.begin(); i != headers.end();)
    i = i->find('/') == std::string::npos || i->ends_with("-inl")  // these only collect others, or have their bodies
            ? headers.erase(i)
            : std::next(i);
  std::string wrong;
  const auto covered = covered_by(read(root / "tests/coverage.md"), wrong);
  CHECK(wrong == "");
  CHECK(headers.size() > 100);
  CHECK(uncovered(headers, names_in("tests", {".cpp", ".cu"}), covered) == "");
}

TEST_CASE("a test has at most 500 lines, an example at most 300") {
  CHECK(longer_than(500, "tests", {".hpp", ".cpp", ".cu", ".cmake"}) == "");
  CHECK(longer_than(300, "examples", {".hpp", ".cpp"}) == "");
  CHECK(longer_than(100, "tests/laws", {".cpp"}) != "");
}

TEST_CASE("a line of a header, an example or a bench has at most 120 columns") {
  for (const char* folder : {"include", "examples", "bench"}) CHECK(wider_than(120, folder) == "");
  CHECK(wider_than(110, "include") != "");
}
