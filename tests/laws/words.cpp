// sanitizers: none

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// One word has one meaning. The table of words in CONTRIBUTING.md names old words and the word to use instead; no old
// word comes back in a header, a test, an example, a bench or a document.
//
//     <!-- words -->
//     | old word | use instead | where |
//     |---|---|---|
//     | old, another_old | new | names |
//
// "names" looks at identifiers in code only, "text" at comments, strings and documents only; an empty cell looks at
// all. An identifier counts by its parts, so that `old` also finds `old_count`; two words in a row also find
// `another_old`.
//
// And no sentence of a comment or a document begins with "Of", "What", "Where" or "Who" as a relative clause. A
// question may, and a label before a list, which has a colon.

namespace {

namespace fs = std::filesystem;

using words = std::vector<std::string>;

enum class kind { name, text };

struct word {
  std::string is;
  kind in;
  int line;
};

struct banned {
  words old;
  std::string use, where;
};

bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }
bool is_name(char c) { return c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0; }

words split(std::string_view text) {
  words found;
  std::string part;
  for (const char c : text)
    if (is_letter(c)) part += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    else if (!part.empty()) found.push_back(std::move(part)), part.clear();
  if (!part.empty()) found.push_back(part);
  return found;
}

std::vector<std::string_view> cells_of(std::string_view line) {
  std::vector<std::string_view> cells;
  if (line.empty() || line[0] != '|') return cells;
  for (std::size_t begin = 1, end; (end = line.find('|', begin)) != std::string_view::npos; begin = end + 1) {
    const auto from = line.find_first_not_of(' ', begin), to = line.find_last_not_of(' ', end - 1);
    cells.push_back(from >= end ? std::string_view{} : line.substr(from, to - from + 1));
  }
  return cells;
}

/// The rows of the table behind "<!-- words -->".
std::vector<banned> table_of(std::string_view document) {
  std::vector<banned> table;
  auto at = document.find("<!-- words -->");
  if (at == std::string_view::npos) return table;
  for (int row = 0; (at = document.find('\n', at)) != std::string_view::npos; ++row) {
    const auto begin = ++at;
    const auto cells = cells_of(document.substr(begin, document.find('\n', begin) - begin));
    if (cells.size() < 3) break;
    if (row < 2) continue;  // the heading and its rule
    std::string_view rest = cells[0];
    while (!rest.empty()) {
      const auto comma = std::min(rest.find(','), rest.size());
      table.push_back({split(rest.substr(0, comma)), std::string(cells[1]), std::string(cells[2])});
      rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
  }
  return table;
}

/// The words of C++, or of a document: there a block of C++ begins and ends with ```.
std::vector<word> words_of(std::string_view text, bool document) {
  std::vector<word> found;
  enum { code, line_comment, block_comment, string, raw_string } state = code;
  bool block = !document;
  std::string raw_end;
  int line = 1;
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    const auto begins = [&](std::string_view what) { return text.substr(i, what.size()) == what; };
    if (document && begins("\n```")) {
      block = !block && begins("\n```cpp");
      state = code;
    }
    if (c == '\n') {
      ++line;
      if (state == line_comment) state = code;
    } else if (!block) {
    } else if (state == code) {
      if (begins("//")) state = line_comment;
      if (begins("/*")) state = block_comment;
      if (begins("R\"") && (i == 0 || !is_name(text[i - 1]))) {
        raw_end = ')' + std::string(text.substr(i + 2, text.find('(', i) - i - 2)) + '"';
        state = raw_string, i += 2;
        continue;
      }
      if (c == '"' || (c == '\'' && (i == 0 || !is_name(text[i - 1])))) {
        raw_end = c, state = string, ++i;
        continue;
      }
    } else if (state == block_comment && begins("*/")) {
      state = code;
    } else if (state == raw_string && begins(raw_end)) {
      state = code, i += raw_end.size();
      continue;
    } else if (state == string && c == '\\') {
      i += 2;
      continue;
    } else if (state == string && c == raw_end[0]) {
      state = code, ++i;
      continue;
    }
    if (!is_letter(c)) {
      ++i;
      continue;
    }
    const auto begin = i;
    while (i < text.size() && is_letter(text[i])) ++i;
    const auto before = begin == 0 ? ' ' : text[begin - 1], after = i == text.size() ? ' ' : text[i];
    const bool identifier = block ? state == code : before == '_' || after == '_';
    found.push_back({split(text.substr(begin, i - begin))[0], identifier ? kind::name : kind::text, line});
  }
  return found;
}

words found_in(std::string_view text, bool document, const std::vector<banned>& table) {
  words wrong;
  const auto all = words_of(text, document);
  for (const auto& row : table)
    for (std::size_t i = 0; i + row.old.size() <= all.size(); ++i) {
      const auto same = [&](const word& w, const std::string& old) {
        return w.is == old && (row.where.empty() || row.where == (w.in == kind::name ? "names" : "text"));
      };
      bool all_same = !row.old.empty();
      for (std::size_t k = 0; k < row.old.size(); ++k) all_same = all_same && same(all[i + k], row.old[k]);
      if (!all_same) continue;
      std::string old;
      for (const auto& part : row.old) old += (old.empty() ? "" : " ") + part;
      wrong.push_back(std::to_string(all[i].line) + ": \"" + old + "\": use " + row.use);
    }
  return wrong;
}

/// A paragraph of a comment or a document: its lines in one, and where each of them begins.
struct paragraph {
  std::string text;
  std::vector<std::pair<std::size_t, int>> lines{};

  void add(std::string_view line, int number) {
    if (!text.empty()) text += ' ';
    lines.push_back({text.size(), number});
    text += line;
  }
  int line_of(std::size_t at) const {
    int found = 0;
    for (const auto& [begin, number] : lines)
      if (begin <= at) found = number;
    return found;
  }
};

/// The comment of a line of C++ without its slashes: a whole line, or two spaces behind code. Empty: there is none.
std::string_view comment_of(std::string_view line) {
  const auto first = std::min(line.find_first_not_of(' '), line.size());
  const bool whole = line.substr(first, 2) == "//";
  const auto behind = line.rfind("  //");
  if (!whole && behind == std::string_view::npos) return {};
  auto text = line.substr(whole ? first : behind + 2);
  text.remove_prefix(std::min(text.find_first_not_of("/<"), text.size()));
  return text.substr(text.empty() || text[0] != ' ' ? 0 : 1);
}

/// The paragraphs of comments, or of a document. Indented lines are drawings; tables and blocks of code are none.
std::vector<paragraph> paragraphs_of(std::string_view text, bool document) {
  std::vector<paragraph> all(1);
  bool block = false;
  int number = 0;
  for (std::size_t begin = 0; begin < text.size(); ++number) {
    const auto end = std::min(text.find('\n', begin), text.size());
    auto line = text.substr(begin, end - begin);
    begin = end + 1;
    const auto rest = line.substr(std::min(line.find_first_not_of(' '), line.size()));
    const bool behind_code = !document && !rest.starts_with("//");
    if (document && line.starts_with("```")) block = !block;
    if (!document) line = comment_of(line);
    const bool prose = !line.empty() && !block && !line.starts_with("    ") &&
                       (!document || std::string_view("|#<`!").find(line[0]) == std::string_view::npos);
    const bool item = document && (rest.starts_with("- ") || rest.find(". ") == 1);
    if (!prose || item || behind_code) all.emplace_back();
    if (item) line = rest.substr(rest.find(' ') + 1);
    if (prose) all.back().add(line, number + 1);
    if (behind_code) all.emplace_back();
  }
  return all;
}

/// The sentences that begin with a relative clause, each with its line.
words relative_clauses(std::string_view text, bool document) {
  words wrong;
  for (const auto& of : paragraphs_of(text, document))
    for (std::size_t begin = 0, end; begin < of.text.size(); begin = end + 1) {
      end = begin;
      while (end < of.text.size() && (std::string_view(".?!").find(of.text[end]) == std::string_view::npos ||
                                      (end + 1 < of.text.size() && of.text[end + 1] != ' ')))
        ++end;
      while (begin < end && of.text[begin] == ' ') ++begin;
      const std::string_view sentence = std::string_view(of.text).substr(begin, end - begin);
      const auto first = sentence.substr(0, sentence.find_first_of(" ,"));
      const bool label = (' ' + std::string(sentence) + ' ').find(": ") != std::string::npos;
      const bool question = end < of.text.size() && of.text[end] == '?';
      if (!label && !question && (first == "Of" || first == "What" || first == "Where" || first == "Who"))
        wrong.push_back(std::to_string(of.line_of(begin)) + ": a sentence begins with \"" + std::string(first) + '"');
    }
  return wrong;
}

std::string read(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

const fs::path root = fs::path(GPIPE_TESTS_FOLDER).parent_path();
const words none;

/// A line for each fault that `faults_in(text, whether it is a document)` finds in the documents and in all sources.
template <class FaultsIn>
std::string all_faults(std::vector<fs::path> texts, const FaultsIn& faults_in) {
  constexpr std::array extensions{".hpp", ".cpp", ".cu", ".md"};
  for (const auto folder : {"include", "tests", "examples", "bench"})
    for (const auto& entry : fs::recursive_directory_iterator(root / folder))
      if (std::find(extensions.begin(), extensions.end(), entry.path().extension()) != extensions.end())
        texts.push_back(entry.path());
  words wrong;
  for (const auto& path : texts)
    for (const auto& what : faults_in(read(path), path.extension() == ".md"))
      wrong.push_back(fs::relative(path, root).generic_string() + ":" + what);
  std::sort(wrong.begin(), wrong.end());
  std::string list;
  for (const auto& line : wrong) list += line + '\n';
  return list;
}

}  // namespace

TEST_CASE("a planted old word is found, with its line and the word to use") {
  const auto table = table_of(
      "x\n\n<!-- words -->\n| old word | use instead | where |\n|---|---|---|\n"
      "| frob, quux_far | work | |\n| wib | group | names |\n| so very | N | text |\n\n| after | the table | |\n");
  REQUIRE(table.size() == 4);
  CHECK(found_in("int frob_count = 0;\n", false, table) == words{"1: \"frob\": use work"});
  CHECK(found_in("int a;\n// It may Frob.\n", false, table) == words{"2: \"frob\": use work"});
  CHECK(found_in("throw_error({\"it frob\", 1});", false, table) == words{"1: \"frob\": use work"});
  CHECK(found_in("int frobs = 0, quux = far(quuxfar);", false, table) == words{"1: \"quux far\": use work"});
  CHECK(found_in("quux_far();", false, table) == words{"1: \"quux far\": use work"});
  CHECK(found_in("f(\"wib\", 'w', 1'000); // wib\n", false, table) == none);
  CHECK(found_in("wib();", false, table) == words{"1: \"wib\": use group"});
  CHECK(found_in("// So\n// very many\nso very;", false, table) == words{"1: \"so very\": use N"});
  CHECK(found_in("A wib, and `wib_of`.\n```cpp\n// wib\nwib(\"wib\");\n```\nwib\n", true, table) ==
        words{"1: \"wib\": use group", "4: \"wib\": use group"});
  CHECK(found_in("R\"(wib \" so very)\" wib", false, table) == words{"1: \"wib\": use group", "1: \"so very\": use N"});
}

TEST_CASE("a planted relative clause at the begin of a sentence is found, with its line") {
  const auto found = [](std::string_view text, bool document = false) { return relative_clauses(text, document); };
  const auto at = [](int line, const char* word) {
    return std::to_string(line) + ": a sentence begins with \"" + word + '"';
  };
  CHECK(found("// What it returns is a copy.\n") == words{at(1, "What")});
  CHECK(found("int a;\n/// It is one. Where\n/// it is not, it throws.\n") == words{at(2, "Where")});
  CHECK(found("/// It ends\n/// here. Of two, the first counts.\n") == words{at(2, "Of")});
  CHECK(found("int a;  "
              "///< Who calls it\nint b;  "
              "// of 1.5 s. Of two\n") == words{at(1, "Who"), at(2, "Of")});
  CHECK(found("// What is it? Of each worker: its line. Whatever fails, somewhat.\n//\n//     Where\nf(\"Of\");\n") ==
        none);
  CHECK(found("A line.\n- What it is.\n| Of | Who |\n\n```cpp\nOf\n```\nWhere?\n1. Of\n", true) ==
        words{at(2, "What"), at(9, "Of")});
}

TEST_CASE("no old word of CONTRIBUTING.md comes back") {
  const auto table = table_of(read(root / "CONTRIBUTING.md"));
  REQUIRE(table.size() > 20);
  for (const auto& row : table) {
    CAPTURE(row.use);
    CHECK((row.where.empty() || row.where == "names" || row.where == "text"));
    CHECK(!row.use.empty());
  }
  CHECK(all_faults({root / "README.md"},
                   [&](std::string_view text, bool document) { return found_in(text, document, table); }) == "");
}

TEST_CASE("no sentence begins with a relative clause") {
  CHECK(all_faults({root / "README.md", root / "CONTRIBUTING.md"}, relative_clauses) == "");
}
