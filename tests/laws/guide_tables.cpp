// sanitizers: none

// The guide's page of layers is complete: it links to the header of every layer and names each. And a table of any page
// behind a comment such as
//
//     <!-- members of fit_options in include/gpipe/train/fit.hpp -->
//
// has every data member of the struct in the first cell of a row, and no other. A second column that is called
// "default" has their first values.

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "support/sources.hpp"

namespace {

using sources::after_pair;
using sources::is_name;
using sources::read;
using sources::root;
using names = std::set<std::string>;

std::string last_name(const std::string& text) {
  std::size_t end = text.size();
  while (end > 0 && !is_name(text[end - 1])) --end;
  std::size_t begin = end;
  while (begin > 0 && is_name(text[begin - 1])) --begin;
  return text.substr(begin, end - begin);
}

/// The data members in the body of a struct without access specifiers. A function has its parenthesis before any `=`.
names members_in(const std::string& body) {
  names found;
  std::string declared;
  bool value = false, function = false;
  const auto note = [&] {  // names of other libraries, which are there for an error, are no members
    if (declared.find("named_elsewhere") != declared.npos) return;
    if (!function && !last_name(declared).empty()) found.insert(last_name(declared));
  };
  for (std::size_t i = 0; i < body.size();) {
    const char c = body[i];
    if (c == '(' && !value) function = true;
    if (c == '(' || c == '{') {
      const bool ends = c == '{' && function;
      i = after_pair(body, i);
      if (ends) declared.clear(), function = value = false;  // a function's body
      continue;
    }
    if (c == ';' || (c == ',' && !function)) {
      note();
      if (c == ';') declared.clear(), function = false;
      else declared = ",";
      value = false;
    } else if (c == '=') {
      value = true;
    } else if (!value) {
      declared += c;
    }
    ++i;
  }
  return found;
}

/// The first value of each data member that is declared alone and with `=`, as a table writes it.
std::map<std::string, std::string> defaults_in(const std::string& body) {
  std::map<std::string, std::string> found;
  std::string declared;
  for (std::size_t i = 0; i < body.size();) {
    if (body[i] == '{' || body[i] == '(') {
      const std::size_t end = after_pair(body, i);
      if (body[i] == '{' && declared.find('(') != declared.npos) declared.clear();  // a function's body
      else declared += body[i] == '(' ? "()" : "";
      i = end;
      continue;
    }
    if (body[i] != ';') {
      declared += body[i++];
      continue;
    }
    const std::size_t equals = declared.find('=');
    if (equals != declared.npos && declared.substr(0, equals).find('(') == declared.npos) {
      const std::string value = declared.substr(declared.find_last_of("=: ") + 1);
      found[last_name(declared.substr(0, equals))] = value == "nullptr"           ? "null"
                                                     : value == "no_memory_limit" ? "none"
                                                                                  : value;
    }
    declared.clear();
    ++i;
  }
  return found;
}

std::string body_of(const std::string& type, const std::filesystem::path& header) {
  const std::string code = sources::without_comments(read(root / header));
  const std::size_t at = code.find("struct " + type + " {");
  CAPTURE(type);
  REQUIRE(at != code.npos);
  const std::size_t open = code.find('{', at), end = after_pair(code, open);
  return code.substr(open + 1, end - open - 2);
}

/// The texts between backquotes, without the dot before the name of a member.
std::vector<std::string> quoted(const std::string& text) {
  std::vector<std::string> found;
  for (std::size_t at = text.find('`'); at != text.npos;) {
    const std::size_t end = text.find('`', at + 1);
    if (end == text.npos) break;
    const std::size_t begin = at + (text[at + 1] == '.' ? 2 : 1);
    found.push_back(text.substr(begin, end - begin));
    at = text.find('`', end + 1);
  }
  return found;
}

/// The names in the first cell of each row with what the second cell says of them, if the second column has defaults.
std::map<std::string, std::string> default_cells(const std::string& text, std::size_t at) {
  std::istringstream lines(text.substr(at));
  std::map<std::string, std::string> found;
  std::string line;
  for (int row = 0; std::getline(lines, line);) {
    if (line.empty() || line[0] != '|') {
      if (row > 0) break;
      continue;
    }
    const std::size_t first = line.find('|', 1), second = line.find('|', first + 1);
    std::istringstream cell(line.substr(first + 1, second - first - 1));
    std::string word;
    if (++row == 1 && (!(cell >> word) || word != "default")) return {};
    if (row <= 2) continue;
    for (const std::string& name : quoted(line.substr(0, first)))
      if (cell >> word) found[name] = word.ends_with(',') ? word.substr(0, word.size() - 1) : word;
  }
  return found;
}

names first_cells(const std::string& text, std::size_t at) {
  std::istringstream lines(text.substr(at));
  names found;
  std::string line;
  for (int row = 0; std::getline(lines, line);) {
    if (line.empty() || line[0] != '|') {
      if (row > 0) break;
      continue;
    }
    if (++row <= 2) continue;  // the head
    for (const std::string& name : quoted(line.substr(0, line.find('|', 1)))) found.insert(name);
  }
  return found;
}

const std::string page = read(root / "examples/guide/layers.md");

/// The structs of a header in namespace gpipe that are layers: they, or a base, have `on`.
std::vector<std::string> layers_in(const std::filesystem::path& header) {
  std::vector<std::string> found;
  bool inner = false;  // in gpipe::detail or gpipe::broken
  for (const std::string& line : sources::lines_of(read(header))) {
    if (line.starts_with("namespace gpipe::detail") || line.starts_with("namespace detail") ||
        line.starts_with("namespace broken"))
      inner = true;
    if (line.starts_with("}  // namespace")) inner = false;
    if (inner || !line.starts_with("struct ")) continue;
    const std::size_t begin = 7;
    std::size_t end = begin;
    while (end < line.size() && is_name(line[end])) ++end;
    found.push_back(line.substr(begin, end - begin));
  }
  return found;
}

}  // namespace

TEST_CASE("the page of layers names every layer that ships, and links to its header") {
  // Options, and what layers are made of.
  const names others{"height_width", "no_bias", "slices", "times_root_of_width"};
  int count = 0;
  for (const auto& file : sources::files_of("include/gpipe/layer", {".hpp"})) {
    if (file.parent_path().filename() == "contract") continue;
    const std::string path = sources::name_of(file, "include/gpipe/layer");
    for (const std::string& layer : layers_in(file)) {
      if (others.contains(layer)) continue;
      CAPTURE(path);
      CAPTURE(layer);
      const bool is_named = (page.find("`" + layer + "`") != page.npos || page.find("`" + layer + "<") != page.npos ||
                             page.find(layer + "{") != page.npos);
      CHECK(is_named);
      if (!layer.ends_with("_options") && page.find(layer + "{") == page.npos)
        CHECK(page.find("include/gpipe/layer/" + path) != page.npos);
      ++count;
    }
  }
  CHECK(count > 45);
}

TEST_CASE("tables of members equal the headers") {
  const std::string_view begins = "<!-- members of ";
  int tables = 0, defaults = 0;
  for (const auto& chapter : std::filesystem::directory_iterator(root / "examples/guide")) {
    const std::string text = read(chapter.path());
    for (std::size_t at = text.find(begins); at != text.npos; at = text.find(begins, at + 1)) {
      std::istringstream words(text.substr(at + begins.size()));
      std::string type, in, header;
      words >> type >> in >> header;
      CAPTURE(type);
      ++tables;
      const std::size_t table = text.find('\n', at);
      const std::string body = body_of(type, header);
      CHECK(members_in(body) == first_cells(text, table));
      const auto written = default_cells(text, table);
      if (written.empty()) continue;
      for (const auto& member : defaults_in(body)) {
        CAPTURE(member.first);
        CHECK(written.at(member.first) == member.second);
        ++defaults;
      }
    }
  }
  CHECK(tables >= 7);
  CHECK(defaults > 25);
}

TEST_CASE("planted: a member and a function differ") {
  CHECK(members_in("int a = f(1, 2), b{3}; const x::y* c = nullptr; bool d() const { return a; } data e{};"
                   "[[no_unique_address]] named_elsewhere<f> name{};") == names{"a", "b", "c", "e"});
  const std::map<std::string, std::string> values{{"a", "0.1"}, {"c", "null"}, {"f", "g"}};
  CHECK(defaults_in("float a = 0.1; x b{3}; const x::y* c = nullptr; bool d() const { return a = 2; } e f = e::g;") ==
        values);
  const std::string rows = "\n| of | default | |\n|---|---|---|\n| `.a` | 2 | |\n| `c`, `f` | null, g | |\n";
  CHECK(default_cells(rows, 0).at("a") == "2");
  CHECK(default_cells(rows, 0).at("f") == "g");
}
