// sanitizers: none

// The guide's page of layers is complete: it links to the header of every layer and names each, and a table behind a
// comment such as
//
//     <!-- members of fit_options in include/gpipe/train/fit.hpp -->
//
// has every data member of the struct in the first cell of a row, and no other.

#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace {

namespace fs = std::filesystem;

using names = std::set<std::string>;

const fs::path root = fs::path(GPIPE_TESTS_FOLDER).parent_path();

std::string read(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

std::string without_comments(const std::string& text) {
  std::string code;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.compare(i, 2, "//") == 0) i = std::min(text.find('\n', i), text.size());
    if (i < text.size()) code += text[i];
  }
  return code;
}

/// The position behind the bracket that closes the one at `open`.
std::size_t behind(const std::string& code, std::size_t open) {
  const char begin = code[open], end = begin == '{' ? '}' : begin == '(' ? ')' : '>';
  int depth = 0;
  for (std::size_t i = open; i < code.size(); ++i) {
    depth += code[i] == begin ? 1 : code[i] == end ? -1 : 0;
    if (depth == 0) return i + 1;
  }
  return code.size();
}

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
  const auto note = [&] {
    if (!function && !last_name(declared).empty()) found.insert(last_name(declared));
  };
  for (std::size_t i = 0; i < body.size();) {
    const char c = body[i];
    if (c == '(' && !value) function = true;
    if (c == '(' || c == '{') {
      const bool ends = c == '{' && function;
      i = behind(body, i);
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

names members_of(const std::string& type, const fs::path& header) {
  const std::string code = without_comments(read(root / header));
  const std::size_t at = code.find("struct " + type + " {");
  CAPTURE(type);
  REQUIRE(at != code.npos);
  const std::size_t open = code.find('{', at), end = behind(code, open);
  return members_in(code.substr(open + 1, end - open - 2));
}

/// The texts between backquotes.
std::vector<std::string> quoted(const std::string& text) {
  std::vector<std::string> found;
  for (std::size_t at = text.find('`'); at != text.npos;) {
    const std::size_t end = text.find('`', at + 1);
    if (end == text.npos) break;
    found.push_back(text.substr(at + 1, end - at - 1));
    at = text.find('`', end + 1);
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
std::vector<std::string> layers_in(const fs::path& header) {
  const std::string code = read(header);
  std::vector<std::string> found;
  bool inner = false;  // in gpipe::detail or gpipe::broken
  std::istringstream lines(code);
  for (std::string line; std::getline(lines, line);) {
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
  const names others{"height_width", "no_bias", "slices", "times_root_of_width", "attention_base"};
  int count = 0;
  for (const auto& entry : fs::recursive_directory_iterator(root / "include/gpipe/layer")) {
    if (entry.path().extension() != ".hpp" || entry.path().parent_path().filename() == "contract") continue;
    const std::string path = fs::relative(entry.path(), root / "include/gpipe/layer").generic_string();
    for (const std::string& layer : layers_in(entry.path())) {
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
  int tables = 0;
  for (std::size_t at = page.find(begins); at != page.npos; at = page.find(begins, at + 1)) {
    std::istringstream words(page.substr(at + begins.size()));
    std::string type, in, header;
    words >> type >> in >> header;
    CAPTURE(type);
    CHECK(members_of(type, header) == first_cells(page, page.find('\n', at)));
    ++tables;
  }
  CHECK(tables == 5);
}

TEST_CASE("planted: a member and a function differ") {
  CHECK(members_in("int a = f(1, 2), b{3}; const x::y* c = nullptr; bool d() const { return a; } data e{};") ==
        names{"a", "b", "c", "e"});
}
