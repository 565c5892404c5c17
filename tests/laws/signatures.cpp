// sanitizers: none

#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>

#include "support/sources.hpp"

// A table of calls in the guide equals the header. Before such a table stands a comment of two forms:
//
//     <!-- signatures of basic_context in include/gpipe/device/host/context.hpp before "The runtime's part" -->
//     <!-- calls of operands in include/gpipe/layer/contract/operands.hpp -->
//
// The first cell of each row has `signatures`, without templates' heads, macros and qualifiers; or only `calls`, of
// which the names count. All public members count that are functions: those before, or after, the quoted words if there
// are any. A class in two tables is cut at one place, so no member is left out.

namespace {

using sources::after_pair;
using sources::is_name;
using sources::read;
using sources::root;
using names = std::set<std::string>;

/// One blank between two names, and after a comma, * and &; no other blanks.
std::string tidy(std::string_view text) {
  std::string out;
  bool blank = false;
  for (const char c : text) {
    if (std::isspace(static_cast<unsigned char>(c))) {
      blank = true;
      continue;
    }
    const char last = out.empty() ? ' ' : out.back();
    if ((blank && is_name(c) && (is_name(last) || last == '>')) ||
        (is_name(c) && (last == '*' || last == '&' || last == ',')) || c == '=' || last == '=')
      out += ' ';
    out += c;
    blank = false;
  }
  return out;
}

/// The name before the first parenthesis.
std::string name_of(std::string_view signature) {
  auto end = signature.find('(');
  if (end == std::string_view::npos) return "";
  if (signature[end - 1] == '>') end = signature.rfind('<', end);  // in<0>()
  auto begin = end;
  while (begin > 0 && is_name(signature[begin - 1])) --begin;
  return std::string(signature.substr(begin, end - begin));
}

/// A declaration without its template's head, macros, qualifiers; "" if it is not a function that a user calls.
std::string signature_of(std::string_view declaration, std::string_view of) {
  std::string text = tidy(declaration);
  while (text.rfind("template", 0) == 0) text = tidy(std::string_view(text).substr(after_pair(text, text.find('<'))));
  for (bool again = true; again;) {
    again = false;
    for (const char* word :
         {"GPIPE_OUT_OF_LINE", "GPIPE_HOST_DEVICE", "GPIPE_COLD", "GPIPE_INLINE", "explicit", "static", "constexpr"})
      if (text.rfind(word, 0) == 0) text = tidy(text.substr(std::string_view(word).size())), again = true;
  }
  const auto open = text.find('(');
  const std::string name = name_of(text);
  if (open == std::string::npos || name.empty() || name == of || text.find("= delete") != std::string::npos) return "";
  for (const char* word : {"using ", "static_assert", "friend ", "struct ", "class "})
    if (text.rfind(word, 0) == 0) return "";
  if (text.find('~') < open || text.find("operator") < open) return "";
  return text.substr(0, after_pair(text, open));
}

/// Without functions whose comment says that they are there for an error alone: up to the next blank line or comment.
std::string without_errors(std::string_view header) {
  std::string kept;
  bool skips = false;
  while (!header.empty()) {
    const std::string_view line = header.substr(0, (std::min)(header.find('\n'), header.size() - 1) + 1);
    const auto begin = line.find_first_not_of(" \n");
    if (begin == std::string_view::npos || line.substr(begin, 2) == "//")
      skips = line.find("here for the error.") != std::string_view::npos;
    if (!skips) kept += line;
    header.remove_prefix(line.size());
  }
  return kept;
}

/// The signatures of the public functions of a struct or a class.
names declared(std::string_view header, const std::string& of, std::string_view before) {
  const std::string text =
      sources::without_comments(without_errors(header.substr(0, before.empty() ? header.size() : header.find(before))));
  names found;
  for (const char* kind : {"struct ", "class "}) {
    std::size_t at = 0;
    while ((at = text.find(kind + of, at)) != std::string::npos) {
      at += kind == std::string_view("class ") ? 6 + of.size() : 7 + of.size();
      const auto open = text.find_first_of(";{", at);
      if (is_name(text[at]) || open == std::string::npos || text[open] == ';') continue;
      bool shown = kind == std::string_view("struct ");
      std::string declaration;
      for (std::size_t i = open + 1; i < text.size() && text[i] != '}';) {
        const char c = text[i];
        if (c == '(') {
          const auto end = after_pair(text, i);
          declaration += text.substr(i, end - i);
          i = end;
        } else if (c == ';' || c == '{') {
          if (const std::string signature = signature_of(declaration, of); shown && !signature.empty())
            found.insert(signature);
          declaration.clear();
          i = c == ';' ? i + 1 : after_pair(text, i);
          while (c == '{' && i < text.size() && text[i] == ';') ++i;
        } else if (c == ':' && text[i + 1] != ':' && text[i - 1] != ':') {
          const std::string label = tidy(declaration);
          if (label == "public" || label == "private" || label == "protected") {
            shown = label == "public";
            declaration.clear();
          } else {
            declaration += c;
          }
          ++i;
        } else {
          declaration += c;
          ++i;
        }
      }
      return found;
    }
  }
  return found;
}

/// The `code` in the first cells of the table at the beginning of `text`.
names listed(std::string_view text) {
  names found;
  for (int row = 0; !text.empty() && text[0] == '|'; ++row) {
    const auto end = std::min(text.find('\n'), text.size());
    const auto cell = text.substr(1, text.find('|', 1) - 1);
    for (auto i = cell.find('`'); row > 1 && i != std::string_view::npos; i = cell.find('`', i)) {
      const auto close = cell.find('`', i + 1);
      found.insert(tidy(cell.substr(i + 1, close - i - 1)));
      i = close + 1;
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return found;
}

names names_of(const names& signatures) {
  names found;
  for (const auto& signature : signatures) found.insert(name_of(signature));
  return found;
}

std::string word_at(std::string_view text, std::size_t at) {
  return std::string(text.substr(at, text.find(' ', at) - at));
}

/// Compares each table of a document; counts them.
std::string compare(const std::string& document, std::string_view text, int& tables) {
  std::string wrong;
  for (const std::string_view kind : {"signatures", "calls"}) {
    const std::string opening = "\n<!-- " + std::string(kind) + " of ";
    for (auto at = text.find(opening); at != std::string_view::npos; at = text.find(opening, at + 1)) {
      ++tables;
      const auto of = at + opening.size(), end = text.find(" -->\n", of);
      const std::string_view line = text.substr(of, end - of);
      const std::string name = word_at(line, 0), path = word_at(line, line.find(" in ") + 4);
      const std::string header = read(root / path);
      const auto quote = std::min(line.find('"'), line.size());
      const std::string_view words = quote == line.size() ? "" : line.substr(quote + 1, line.size() - quote - 2);
      if (header.empty()) return wrong + document + ": " + path + " does not exist\n";
      if (header.find(words) == std::string::npos)
        return wrong + document + ": " + path + " has no \"" + std::string(words) + "\"\n";
      names in_header = declared(header, name, words), in_table = listed(text.substr(end + 5));
      if (line.find(" after \"") != std::string_view::npos) {
        names behind = declared(header, name, "");
        for (const auto& it : in_header) behind.erase(it);
        in_header = behind;
      }
      if (kind == "calls") in_header = names_of(in_header), in_table = names_of(in_table);
      for (const auto& it : in_header)
        if (!in_table.count(it)) wrong += document + " lacks " + it + " of " + name + '\n';
      for (const auto& it : in_table)
        if (!in_header.count(it)) wrong += document + " has " + it + ", which is not in " + path + '\n';
      if (in_header.empty()) wrong += document + ": " + path + " has no " + name + '\n';
    }
  }
  return wrong;
}

}  // namespace

TEST_CASE("public functions are found, and nothing else") {
  const std::string header =
      "struct other;\nclass other_one {\n public:\n  void not_this();\n};\nclass other {\n  int hidden();\n\n public:\n"
      "  other(const other&) = delete;\n  explicit other(int n) : n_{n} {}\n  using row = int;\n"
      "  template <int I = 0, class T = std::pair<I, I>>\n  GPIPE_COLD const T*  all(int tensor = 0) const { return "
      "f(); }\n"
      "  /// A comment with no_call(int).\n  double rate() const;\n  void set(int /*layer*/, std::string_view name) "
      "const {}\n"
      "  // This is here for the error.\n  template <class T>\n  void never(T);\n  void nor_this();\n\n"
      "  struct inner {\n    void inside();\n  };\n  static void later(row a,\n                    row b);\n"
      "  // The rest:\n  void behind();\n\n private:\n  void secret();\n};\n";
  const names all = {"const T* all(int tensor = 0)", "double rate()", "void set(int layer, std::string_view name)",
                     "void later(row a, row b)", "void behind()"};
  CHECK(sources::joined(declared(header, "other", "")) == sources::joined(all));
  names first = all;
  first.erase("void behind()");
  CHECK(sources::joined(declared(header, "other", "The rest")) == sources::joined(first));
  CHECK(sources::joined(names_of(first)) == sources::joined(names{"all", "rate", "set", "later"}));
}

TEST_CASE("cells of a table are read") {
  const std::string table =
      "| call | does |\n|---|---|\n| `void f(int  a,T*b)`, `in<0>()` | `no` |\n| `g()` | |\n\n| `h()` | |\n";
  CHECK(sources::joined(listed(table)) == sources::joined(names{"void f(int a, T* b)", "in<0>()", "g()"}));
  CHECK(sources::joined(names_of(listed(table))) == sources::joined(names{"f", "in", "g"}));
}

TEST_CASE("the guide's tables of calls equal the headers") {
  std::string wrong;
  int tables = 0;
  for (const auto& entry : std::filesystem::directory_iterator(root / "examples/guide"))
    wrong += compare(entry.path().filename().string(), read(entry.path()), tables);
  CHECK(wrong == "");
  CHECK(tables >= 4);
}
