// sanitizers: none

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>

// The positions of files, and their lengths. A header's test is at the mirrored path, or tests/coverage.md has a line
//
//     | `plan/stages/cut.hpp` | `plan/cut/choose_cut` | why |
//
// that names the test that runs the header.

namespace {

namespace fs = std::filesystem;

using names = std::set<std::string>;

const fs::path root = fs::path(GPIPE_TESTS_FOLDER).parent_path();

/// The files in a folder that end with one of `endings`, without the ending.
names files_of(const fs::path& folder, const names& endings) {
  names found;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (endings.count(entry.path().extension().string()))
      found.insert(fs::relative(entry.path(), folder).replace_extension().generic_string());
  return found;
}

/// The lines of tests/coverage.md: a header, without its ending, and the test that runs it.
std::map<std::string, std::string> covered_by(std::istream& document, std::string& wrong) {
  std::map<std::string, std::string> found;
  for (std::string line; std::getline(document, line);) {
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

std::string longer_than(std::ptrdiff_t limit, const fs::path& folder, const names& endings) {
  std::string wrong;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!endings.count(entry.path().extension().string())) continue;
    std::ifstream file(entry.path());
    const auto lines = std::count(std::istreambuf_iterator<char>(file), {}, '\n');
    if (lines > limit)
      wrong += fs::relative(entry.path(), root).generic_string() + " has " + std::to_string(lines) + " lines\n";
  }
  return wrong;
}

/// The lines of sources that are wider than `limit` columns; a letter of UTF-8 is one.
std::string wider_than(std::ptrdiff_t limit, const fs::path& folder) {
  std::string wrong;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".hpp" && entry.path().extension() != ".cpp") continue;
    std::ifstream file(entry.path());
    int number = 1;
    for (std::string line; std::getline(file, line); ++number)
      if (std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xC0) != 0x80; }) > limit)
        wrong += fs::relative(entry.path(), root).generic_string() + ":" + std::to_string(number) + "\n";
  }
  return wrong;
}

}  // namespace

TEST_CASE("a header without a test, and a line without its header or its test, is found") {
  std::istringstream table(
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
  std::istringstream nothing("| `b.hpp` | `a` | |\n");
  covered_by(nothing, wrong);
  CHECK(wrong != "");
}

TEST_CASE("every header has a test at the mirrored path, or a line in tests/coverage.md") {
  auto headers = files_of(root / "include/gpipe", {".hpp"});
  for (auto i = headers.begin(); i != headers.end();)
    i = i->find('/') == std::string::npos || i->ends_with("-inl")  // these only collect others, or have their bodies
            ? headers.erase(i)
            : std::next(i);
  std::ifstream table(root / "tests/coverage.md");
  std::string wrong;
  const auto covered = covered_by(table, wrong);
  CHECK(wrong == "");
  CHECK(headers.size() > 100);
  CHECK(uncovered(headers, files_of(root / "tests", {".cpp", ".cu"}), covered) == "");
}

TEST_CASE("a test has at most 500 lines, an example at most 300") {
  CHECK(longer_than(500, root / "tests", {".hpp", ".cpp", ".cu", ".cmake"}) == "");
  CHECK(longer_than(300, root / "examples", {".hpp", ".cpp"}) == "");
  CHECK(longer_than(100, root / "tests/laws", {".cpp"}) != "");
}

TEST_CASE("a line of a header, an example or a bench has at most 120 columns") {
  for (const char* folder : {"include", "examples", "bench"}) CHECK(wider_than(120, root / folder) == "");
  CHECK(wider_than(110, root / "include") != "");
}
