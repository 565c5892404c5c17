// sanitizers: none

#include <doctest/doctest.h>

#include <cctype>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "support/sources.hpp"

// A variable, a parameter, a member or a structured binding has a noun as its name, so that a reader who enters a
// function in the middle knows what it holds. A pronoun or a preposition says nothing:
//
//     const value& of = net.values[v];          const value& value = net.values[v];
//
// Each room has a budget of such declarations, and it only falls. Allowed are `it` for an iterator (`auto it = ...`),
// `in` and `out` for the tensors of a kernel, and functions such as `x::of(y)`.

namespace {

const std::set<std::string_view> no_nouns = {"of",    "at",    "from",  "into",  "all",    "it",    "its",   "what",
                                             "on",    "how",   "which", "mine",  "rest",   "again", "apart", "here",
                                             "there", "these", "those", "other", "others", "same",  "own",   "by",
                                             "to",    "one",   "each",  "now",   "then",   "so"};
const std::set<std::string_view> no_types = {"return",   "else",      "case",   "goto", "new",     "delete",
                                             "operator", "throw",     "not",    "and",  "or",      "co_return",
                                             "using",    "namespace", "sizeof", "do",   "typename"};

/// The declarations whose names are no nouns.
std::vector<std::string> nameless(std::string_view text) {
  const std::vector<std::string> tokens = sources::tokens_of(text);
  std::vector<std::string> found;
  for (std::size_t i = 1; i + 1 < tokens.size(); ++i) {
    const std::string &name = tokens[i], &before = tokens[i - 1], &after = tokens[i + 1];
    if (no_nouns.count(name) == 0) continue;
    if (after != "=" && after != ";" && after != "," && after != ")" && after != "{" && after != ":" && after != "[" &&
        after != "]")
      continue;
    if (name == "it" && before == "auto") continue;  // an iterator
    const bool is_binding = [&] {                    // auto [a, b]
      if (before != "[" && before != ",") return false;
      std::size_t open = i - 1;
      while (open > 0 && tokens[open] != "[" && (tokens[open] == "," || std::isalpha(tokens[open][0]) != 0)) --open;
      return tokens[open] == "[" && open > 0 && (tokens[open - 1] == "auto" || tokens[open - 1] == "&") &&
             (tokens[open - 1] == "auto" || (open > 1 && tokens[open - 2] == "auto"));
    }();
    const char last = before.back();
    const bool has_type = (std::isalpha(static_cast<unsigned char>(before[0])) != 0 && no_types.count(before) == 0) ||
                          ((last == '&' || last == '*' || last == '>') && after != ")" && after != "]") ||
                          ((last == '&' || last == '*') && after == ")" && i > 1 &&
                           std::isalpha(static_cast<unsigned char>(tokens[i - 2][0])) != 0);
    if (is_binding || has_type) found.push_back(name);
  }
  return found;
}

}  // namespace

TEST_CASE("planted names that are no nouns are found") {
  using names = std::vector<std::string>;
  CHECK(nameless("const value& of = net.values[v];") == names{"of"});
  CHECK(nameless("void f(const product& it, int rest) { for (const auto& [what, i] : smallest) g(); }") ==
        names{"it", "rest", "what"});
  CHECK(nameless("struct s { int from, to; };") == names{"from"});
  CHECK(nameless("auto it = list.begin(); // it is one\nreturn of; x::of(y); \"int of = 1;\"") == names{});
  CHECK(nameless("struct s { node* at; std::vector<int> all; };") == names{"at", "all"});
}

TEST_CASE("no room has more names that are no nouns than its budget") {
  // A change may lower a number. It raises none.
  const std::map<std::string, int> budgets = {{"core", 5},   {"layer", 46},    {"model", 4},  {"plan", 1},
                                              {"device", 0}, {"transport", 0}, {"record", 0}, {"runtime", 0},
                                              {"train", 0},  {"cuda", 0},      {"mpi", 0},    {"tools", 1}};
  for (const auto& budget : budgets) {
    int count = 0;
    for (const auto& file : sources::files_of("include/gpipe/" + budget.first, {".hpp"}))
      count += static_cast<int>(nameless(sources::read(file)).size());
    CAPTURE(budget.first);
    CHECK(count == budget.second);
  }
}
