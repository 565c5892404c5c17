// sanitizers: none

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <iomanip>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/sources.hpp"

// The prose of this project counts the patterns that CONTRIBUTING.md lists, in its documents (*.md, except for the
// changelog) and in the comments of its headers. Each pattern has a budget for both, and budgets only fall. A rule is a
// sequence of words within a sentence:
//
//     "that|those of"       one of two words, and "of"
//     "^ that|those"        they begin the sentence, with a capital
//     "!you|we know"        a word that is none of these, and "know"
//
// Blocks of code, drawings and text in `backticks` are no prose. To list the places of a pattern, run this test with
// PATTERN=behind in the environment.

namespace {

using sources::is_name;
using sources::read;
using sources::root;
using paths = std::vector<std::filesystem::path>;

struct pattern {
  const char* name;
  std::vector<std::string_view> rules;
  double goal;  ///< occurrences per 1,000 words to reach: the highest rate of well-known projects
  int in_documents, in_comments;
  bool in_questions = true;  ///< and in headings
};

// clang-format off
constexpr std::string_view distributive =
    "line|lines|row|rows|column|columns|element|elements|byte|bytes|bits|sample|samples|token|tokens|number|numbers|value|"
    "values|stage|stages|layer|layers|word|words|image|images|micro-batch|micro-batches|core|cores|gpu|gpus|thread|"
    "threads|chunk|chunks|slot|slots|warp|warps|block|blocks|header|headers|file|files|launches|kernels|products|product|"
    "pieces|sentences|ms|us|s|seconds|kib|mib|gib|kb|mb|gb|once|twice|times|noun|idea|test|tests "
    "a|an "
    "line|row|column|element|byte|sample|token|number|value|stage|layer|word|image|micro-batch|core|gpu|thread|slot|warp|"
    "block|header|file|step|second|parameter|weight|worker|rank|process|replica|device|power|side|group|field|head|slice|"
    "tap|cell|call|cut|save|length|array|sentence|language|convolution|multiprocessor|body|location|model|link";

const std::vector<pattern> patterns = {
    {"opening", {"^ that|those|which|of|what|where|who|whose"}, 0.1, 5, 8, false},
    {"a line a stage", {distributive}, 0, 6, 12},
    {"behind", {"behind"}, 0.2, 1, 1},
    {"beside", {"beside"}, 0.1, 2, 3},
    {"stand", {"stand|stands|standing|stood"}, 0.1, 0, 1},
    {"that of", {"that|those of", "of which"}, 0.15, 7, 21},
    {"of its own", {"of its|their|our|your|his own"}, 0, 0, 8},
    {"personified", {"!you|user|users|who|reader|readers|people|caller|error|message knows|asks|says|wants|tells|told",
                     "!you|users|to|people|readers|we know|ask|say|want|tell", "lets|letting !you|users"}, 0.4, 9, 13},
    {"what", {"what"}, 1.0, 26, 28, false},
    {"house terms", {"anew", "alike", "for ever", "ours", "at hand", "so many", "nobody|somebody",
                     "reckon|reckons|reckoned", "hand|hands|handed|handing on", "in|several|keep|keeps shares",
                     "one a|an !hour|day", "belongs|belong to it"}, 0, 16, 20},
    {"spelling", {"initialise|initialised|initialiser|normalise|normalised|optimise|optimised|specialise|"
                  "specialised|specialisation"}, 0, 0, 0},
};
// clang-format on

/// Names of an earlier version, by their parts, and the name to use.
struct renamed {
  std::string_view before, after;
};
constexpr std::array earlier_names{
    renamed{"appointment", "pending_transfer"},
    renamed{"bell", "condition"},
    renamed{"cargo", "buffer_layout"},
    renamed{"crew", "thread_team"},
    renamed{"door", "mutex"},
    renamed{"examiner", "nonfinite_finder"},
    renamed{"far_receiver", "a channel end, addressed by micro-batch"},
    renamed{"far_sender", "a channel end, addressed by micro-batch"},
    renamed{"farewell", "goodbye"},
    renamed{"gpipe_once", "GPIPE_COLD"},
    renamed{"handover", "stage_io"},
    renamed{"herald", "failure_broadcast"},
    renamed{"ledger", "shared_status"},
    renamed{"lifeline", "worker_signals"},
    renamed{"lookout", "progress_engine"},
    renamed{"loss_place", "loss_location"},
    renamed{"observer", "activation_recorder"},
    renamed{"onlooker", "layer_hooks"},
    renamed{"parameter_place", "array_location"},
    renamed{"roll_call", "call_check"},
    renamed{"row_types_of", "layer_type"},
    renamed{"seat", "waiter or rank_layout"},
    renamed{"slot_cost", "layer: a slot is memory"},
    renamed{"timesheet", "action_timer"},
    renamed{"verdict", "quality"},
    renamed{"workshop", "worker_context"},
    renamed{"written_step", "captured_step"},
};

bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }
char lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

/// Words in lower case; a comma, a colon and the like are words, too.
struct sentence {
  std::vector<std::string> words{};
  std::vector<int> lines{};
  bool capital = false, question = false;
  bool row = false, heading = false;
};

/// Splits paragraphs into sentences.
class reader {
 public:
  void add(std::string_view text, int line) {
    now_.row = text.starts_with('|'), now_.heading = text.starts_with('#');
    for (std::size_t i = 0; i < text.size(); ++i) {
      const char c = text[i];
      if (c == '`') {  // code is one word
        i = std::min(text.find('`', i + 1), text.size() - 1);
        push("`", line);
      } else if (text.substr(i, 2) == "](") {  // a link's address
        i = std::min(text.find(')', i), text.size() - 1);
      } else if (is_letter(c)) {
        if (now_.words.empty())
          now_.capital = std::isupper(static_cast<unsigned char>(c)) != 0 && (i == 0 || text[i - 1] != '[');
        std::string word;
        for (; i < text.size() && (is_name(text[i]) || text[i] == '-' || text[i] == '\''); ++i) word += lower(text[i]);
        while (word.back() == '-') word.pop_back();
        --i;
        push(std::move(word), line);
      } else if (c == '|' || ((c == '.' || c == '?' || c == '!') && ends_at(text, i + 1))) {
        now_.question = c == '?';
        end();
      } else if (c == ',' || c == ':' || c == ';' || c == '(' || c == ')') {
        push(std::string(1, c), line);
      }
    }
  }
  void end() {
    if (!now_.words.empty()) found.push_back(std::move(now_));
    now_ = {.row = now_.row, .heading = now_.heading};
  }

  std::vector<sentence> found;

 private:
  /// Whether a sentence ends here: blanks follow, perhaps after a quote or the end of bold text.
  static bool ends_at(std::string_view text, std::size_t i) {
    i = std::min(text.find_first_not_of("*)\"", i), text.size());
    return i == text.size() || text[i] == ' ';
  }
  void push(std::string word, int line) { now_.words.push_back(std::move(word)), now_.lines.push_back(line); }
  sentence now_;
};

/// The comment of a line of C++ without its slashes: a whole line, or two spaces behind code. Empty: there is none.
std::string_view comment_of(std::string_view line) {
  const auto first = std::min(line.find_first_not_of(' '), line.size());
  const bool whole = line.substr(first, 2) == "//";
  const auto after_code = line.rfind("  //");
  if (!whole && after_code == std::string_view::npos) return {};
  auto text = line.substr(whole ? first : after_code + 2);
  text.remove_prefix(std::min(text.find_first_not_of("/<!"), text.size()));
  return text.substr(text.empty() || text[0] != ' ' ? 0 : 1);
}

/// A line that a tool reads, such as "// change: a layer" or "<!-- file: PATH -->".
bool is_mark(std::string_view line) {
  return line.starts_with("<!--") || line.starts_with("change: ") || line.starts_with("assumes: ");
}

/// The sentences of a document, or of comments. Indented lines are code or drawings.
std::vector<sentence> sentences_of(std::string_view text, bool document) {
  reader reads;
  bool block = false;
  int number = 0;
  for (std::size_t begin = 0; begin < text.size(); ++number) {
    const auto end = std::min(text.find('\n', begin), text.size());
    auto line = text.substr(begin, end - begin);
    begin = end + 1;
    const auto content = line.substr(std::min(line.find_first_not_of(' '), line.size()));
    const bool after_code = !document && !content.starts_with("//");
    if (document && line.starts_with("```")) block = !block;
    if (!document) line = comment_of(line);
    const bool prose =
        !line.empty() && !block && !line.starts_with("    ") && !line.starts_with("```") && !is_mark(line);
    const bool single = document && !content.empty() && (content[0] == '|' || content[0] == '#');
    const bool item = document && (content.starts_with("- ") || content.find(". ") == 1);
    if (!prose || single || item || after_code) reads.end();
    if (prose) reads.add(item ? content.substr(content.find(' ') + 1) : line, number + 1);
    if (single || after_code) reads.end();
  }
  reads.end();
  return std::move(reads.found);
}

bool is_one_of(std::string_view word, std::string_view choices) {
  const bool negated = choices.starts_with('!');
  if (negated) choices.remove_prefix(1);
  bool found = false;
  while (!found && !choices.empty()) {
    const auto bar = std::min(choices.find('|'), choices.size());
    found = choices.substr(0, bar) == word;
    choices.remove_prefix(std::min(bar + 1, choices.size()));
  }
  return found != negated;
}

bool begins_at(const sentence& s, std::size_t at, std::string_view rule) {
  if (rule.starts_with("^ ")) {
    if (at != 0 || !s.capital) return false;
    rule.remove_prefix(2);
  }
  for (; !rule.empty(); ++at) {
    const auto blank = std::min(rule.find(' '), rule.size());
    if (at >= s.words.size() || !is_one_of(s.words[at], rule.substr(0, blank))) return false;
    rule.remove_prefix(std::min(blank + 1, rule.size()));
  }
  return true;
}

/// The lines with a pattern.
std::vector<int> lines_with(const pattern& p, const std::vector<sentence>& text) {
  std::vector<int> lines;
  for (const sentence& s : text)
    for (std::size_t i = 0; i < s.words.size() && (p.in_questions || !(s.question || s.heading)); ++i)
      for (const auto rule : p.rules)
        if (begins_at(s, i, rule)) lines.push_back(s.lines[i]);
  return lines;
}

bool is_relative_clause(const sentence& s) {
  const bool label = std::find(s.words.begin(), s.words.end(), ":") != s.words.end();
  return s.capital && !s.question && !s.row && !s.heading && !label && is_one_of(s.words[0], "of|what|where|who");
}

/// The identifiers of C++ that have an earlier name as a part, each with its line.
std::vector<std::string> old_names(std::string_view text) {
  std::vector<std::string> wrong;
  int line = 1;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n') ++line;
    if (text.substr(i, 2) == "//") {
      i = std::min(text.find('\n', i), text.size()) - 1;
    } else if (text[i] == '"') {
      for (++i; i < text.size() && text[i] != '"' && text[i] != '\n'; ++i) i += text[i] == '\\';
    } else if (is_name(text[i])) {
      std::string name = "_";
      for (; i < text.size() && is_name(text[i]); ++i) name += lower(text[i]);
      --i;
      name += '_';
      for (const auto& [before, after] : earlier_names)
        for (const char* end : {"_", "s_"})
          if (name.find('_' + std::string(before) + end) != std::string::npos)
            wrong.push_back(std::to_string(line) + ": \"" + std::string(before) + "\": use " + std::string(after));
    }
  }
  return wrong;
}

/// The files with one of these extensions in the project's folders.
paths files_of(std::initializer_list<std::string_view> extensions) {
  paths files;
  for (const char* folder : {"bench", "examples", "include", "tests"})
    for (auto& file : sources::files_of(folder, extensions)) files.push_back(std::move(file));
  return files;
}

paths documents() {
  auto files = files_of({".md"});
  files.insert(files.begin(), {root / "README.md", root / "CONTRIBUTING.md"});
  return files;
}

/// A report if a count is not its budget: a line for each pattern, which shows the new numbers of `patterns`.
std::string differences(const paths& files, bool document, int pattern::*budget) {
  std::size_t words = 0;
  std::vector<int> counts(patterns.size());
  const char* const listed = std::getenv("PATTERN");
  for (const auto& path : files) {
    const auto text = sentences_of(read(path), document);
    for (const sentence& s : text)
      words += static_cast<std::size_t>(
          std::count_if(s.words.begin(), s.words.end(), [](const auto& w) { return is_letter(w[0]); }));
    for (std::size_t i = 0; i < patterns.size(); ++i)
      for (const int line : lines_with(patterns[i], text)) {
        ++counts[i];
        if (listed != nullptr && patterns[i].name == std::string_view(listed))
          MESSAGE(sources::name_of(path) << ":" << line);
      }
  }
  std::ostringstream report;
  bool differ = false;
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    const pattern& p = patterns[i];
    differ = differ || counts[i] != p.*budget;
    report << (counts[i] > p.*budget   ? "MORE  "
               : counts[i] < p.*budget ? "fewer "
                                       : "      ")
           << std::left << std::setw(15) << p.name << " found " << std::right << std::setw(4) << counts[i]
           << ", budget " << std::setw(4) << p.*budget << "; per 1,000 words " << std::fixed << std::setprecision(2)
           << 1000. * counts[i] / static_cast<double>(words) << ", goal " << p.goal << '\n';
  }
  if (!differ) return "";
  return std::to_string(words) + " words; write fewer, or lower the budgets in tests/laws/words.cpp:\n" + report.str();
}

const pattern& named(std::string_view name) {
  return *std::find_if(patterns.begin(), patterns.end(), [&](const pattern& p) { return p.name == name; });
}

}  // namespace

TEST_CASE("a planted pattern is found, with its line") {
  using lines = std::vector<int>;
  const auto found = [](std::string_view name, std::string_view text, bool document = false) {
    return lines_with(named(name), sentences_of(text, document));
  };
  CHECK(found("opening", "// That it is. Those\n// are. Which? The label: that.\n/// Where it is, x. Of\n/// two.\n") ==
        lines{1, 1, 3, 3});
  CHECK(found("opening", "A line.\n- What it is.\n| Of it | x |\n## Who\n\n```cpp\nOf\n```\nWhere?\n1. Of\n", true) ==
        lines{2, 3, 10});
  CHECK(found("a line a stage", "// A report with a line\n// a stage, 8 bytes a parameter, once a step.\n") ==
        lines{1, 2, 2});
  CHECK(found("a line a stage", "// It reads a line. A stage has a **line.** A stage\n") == lines{});
  CHECK(found("behind", "int behind;  // behind it\nint a;\n//     behind\n// `behind`, [x](behind)\n") == lines{1});
  CHECK(found("beside", "The reader beside it.\n", true) == lines{1});
  CHECK(found("stand", "/// The bodies stand in it.\n") == lines{1});
  CHECK(found("that of", "// As that of a. All those of b, of which c.\n") == lines{1, 1, 1});
  CHECK(found("that of", "// After that. Of them\n// change: that of\n") == lines{});
  CHECK(found("of its own", "// A thread of its own\n// and of their own.\n") == lines{1, 2});
  CHECK(found("personified", "// The plan knows it. You know it.\n// Layers want it; it lets a stage\n// run.\n") ==
        lines{1, 2, 2});
  CHECK(found("what", "// It is what is large. What is it?\n") == lines{1});
  CHECK(found("house terms", "It begins anew\n\n    anew\n", true) == lines{1});
  CHECK(found("spelling", "// It is initialised.\n") == lines{1});
}

TEST_CASE("CONTRIBUTING.md has a row for each pattern") {
  const std::string text = read(root / "CONTRIBUTING.md");
  for (const pattern& p : patterns)
    CHECK_MESSAGE(text.find("\n| `" + std::string(p.name) + "` | ") != text.npos, p.name);
}

TEST_CASE("documents keep the budgets of patterns") {
  CHECK(differences(documents(), true, &pattern::in_documents) == "");
}

TEST_CASE("comments of headers keep the budgets of patterns") {
  CHECK(differences(sources::files_of("include", {".hpp"}), false, &pattern::in_comments) == "");
}

TEST_CASE("no sentence of a document or a source begins with a relative clause") {
  CHECK(is_relative_clause(sentences_of("// What it returns is a copy.\n", false)[0]));
  CHECK(!is_relative_clause(sentences_of("// Of each worker: its line.\n", false)[0]));
  auto files = files_of({".hpp", ".cpp", ".cu"});
  const auto texts = documents();
  files.insert(files.end(), texts.begin(), texts.end());
  for (const auto& path : files)
    for (const sentence& s : sentences_of(read(path), path.extension() == ".md"))
      if (is_relative_clause(s))
        FAIL_CHECK(sources::name_of(path) << ":" << s.lines[0] << ": a sentence begins with " << s.words[0]);
}

TEST_CASE("no earlier name comes back") {
  CHECK(old_names("int a;\nint crew_size, the_doors;\n") ==
        std::vector<std::string>{"2: \"crew\": use thread_team", "2: \"door\": use mutex"});
  CHECK(old_names("int screw, x_ray; // crew\nf(\"crew\");\n").empty());
  for (const auto& path : files_of({".hpp", ".cpp", ".cu"}))
    for (const auto& wrong : old_names(read(path))) FAIL_CHECK(sources::name_of(path) << ":" << wrong);
}
