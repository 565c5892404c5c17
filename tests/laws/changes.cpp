// sanitizers: none

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "support/sources.hpp"

// A place that a kind of change touches, or that relies on an assumption, has a tag directly above it:
//
//     // change: a schedule; before custom                  # or <!-- --> where the language has these comments
//     /// The built-in schedules.
//     enum class schedule_kind {
//
// The tour (include/gpipe/README.md) has a line `- **a schedule**: ...` for each kind. Every tag has its line, every
// line has a tag, and `bash tests/changes` prints their numbers.

namespace {

using sources::lines_of;
using sources::read;
using sources::root;

/// The places of each kind, such as "change: a schedule".
using places = std::map<std::string, std::vector<std::string>>;

/// The kind of a tag in this line; empty: it has none.
std::string kind_of(std::string_view line) {
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  for (const std::string_view comment : {"// ", "# ", "<!-- "}) {
    if (!line.starts_with(comment)) continue;
    line.remove_prefix(comment.size());
    if (!line.starts_with("change: ") && !line.starts_with("assumes: ")) return "";
    if (line.ends_with(" -->")) line.remove_suffix(4);
    return std::string(line.substr(0, line.find(';')));
  }
  return "";
}

/// Adds the tags of a file, and a fault for a tag with nothing below it.
void find_tags(const std::string& file, std::string_view text, places& tags, std::string& wrong) {
  const auto lines = lines_of(text);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string kind = kind_of(lines[i]), place = file + ":" + std::to_string(i + 1);
    if (kind.empty()) continue;
    tags[kind].push_back(place);
    if (i + 1 == lines.size() || lines[i + 1].find_first_not_of(' ') == std::string::npos)
      wrong += place + ": a tag has no code directly below it\n";
  }
}

/// The kinds that the tour lists, with "change: " or "assumes: " by their section.
std::set<std::string> listed_kinds(std::string_view tour) {
  std::set<std::string> kinds;
  std::string word;
  for (const std::string& line : lines_of(tour)) {
    if (line.starts_with("## "))
      word = line == "## Where does a change go?"      ? "change: "
             : line == "## What is assumed everywhere" ? "assumes: "
                                                       : "";
    const auto end = line.find("**: ");
    if (!word.empty() && line.starts_with("- **") && end != std::string::npos)
      kinds.insert(word + line.substr(4, end - 4));
  }
  return kinds;
}

std::string differences(const places& tags, const std::set<std::string>& listed) {
  std::string wrong;
  for (const auto& [kind, found] : tags)
    if (listed.count(kind) == 0) wrong += found[0] + ": \"" + kind + "\" has no line in include/gpipe/README.md\n";
  for (const auto& kind : listed)
    if (tags.count(kind) == 0) wrong += "include/gpipe/README.md: \"" + kind + "\" has no tag in the code\n";
  return wrong;
}

places all_tags(std::string& wrong) {
  places tags;
  for (const char* file : {"CMakeLists.txt", "gpipe-config.cmake"}) find_tags(file, read(root / file), tags, wrong);
  for (const char* folder : {"bench", "conan", "examples", "include", "tests"})
    for (const auto& file : sources::files_of(folder, {".hpp", ".cpp", ".cu", ".md", ".txt", ".cmake", ".py"}))
      find_tags(sources::name_of(file), read(file), tags, wrong);
  return tags;
}

/// The output of tests/changes.
std::string printed(const std::string& arguments) {
  std::string text;
  FILE* const pipe = popen(("bash '" + (root / "tests/changes").string() + "' " + arguments + " 2>&1").c_str(), "r");
  REQUIRE(pipe != nullptr);
  for (int c; (c = std::fgetc(pipe)) != EOF;) text += static_cast<char>(c);
  const int status = pclose(pipe);
  return status == 0 ? text : "failed: " + text;
}

}  // namespace

TEST_CASE("planted tags are found, with or without a line and a place") {
  places tags;
  std::string wrong;
  find_tags("a.hpp", "  // change: a b; remark\n/// c\nint d;\n// assumes: e\n\nf(\"// change: g\");\n", tags, wrong);
  find_tags("b.md", "<!-- change: a b -->\n| c |\n", tags, wrong);
  find_tags("c.py", "# change: h\nd = 1\n# changes: i\n", tags, wrong);
  CHECK(wrong == "a.hpp:4: a tag has no code directly below it\n");
  CHECK(tags == places{{"assumes: e", {"a.hpp:4"}}, {"change: a b", {"a.hpp:1", "b.md:1"}}, {"change: h", {"c.py:1"}}});
  const auto listed = listed_kinds(
      "- **h**: x\n## Where does a change go?\n\n- **a b**: x\n- **j**: x\n\n## What is assumed everywhere\n\n"
      "- **e**: x\n## core\n- **k**: x\n");
  CHECK(listed == std::set<std::string>{"assumes: e", "change: a b", "change: j"});
  CHECK(differences(tags, listed) ==
        "c.py:1: \"change: h\" has no line in include/gpipe/README.md\n"
        "include/gpipe/README.md: \"change: j\" has no tag in the code\n");
}

TEST_CASE("every tag has its line in the tour, and every line has a tag") {
  std::string wrong;
  const places tags = all_tags(wrong);
  CHECK(wrong == "");
  CHECK(tags.size() > 40);
  CHECK(differences(tags, listed_kinds(read(root / "include/gpipe/README.md"))) == "");
}

TEST_CASE("tests/changes prints the number of places of each kind, and the places of one") {
  std::string wrong;
  const places tags = all_tags(wrong);
  std::set<std::string> expected;
  for (const auto& [kind, found] : tags) {
    const auto end = kind.find(": ");
    expected.insert((kind.substr(0, end) + "   ").substr(0, 7) + "  " + kind.substr(end + 2) + ": " +
                    std::to_string(found.size()));
  }
  const auto lines = lines_of(printed(""));
  CHECK(std::set<std::string>(lines.begin(), lines.end()) == expected);
  std::set<std::string> found;
  for (const auto& line : lines_of(printed("'a schedule'"))) found.insert(line.substr(0, line.find(": ")));
  CHECK(found == std::set<std::string>(tags.at("change: a schedule").begin(), tags.at("change: a schedule").end()));
  CHECK(printed("'no such kind'").starts_with("failed: no place has the tag \"no such kind\""));
}
