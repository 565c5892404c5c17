#pragma once

// The command line of the examples: `--name value`. Each option has a range, and anything else is an error.

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <deque>
#include <functional>
#include <initializer_list>
#include <iostream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <gpipe/core/error.hpp>
#include <gpipe/core/text/parse_number.hpp>
#include <gpipe/core/text/quoted.hpp>
#include <gpipe/core/text/suggestion.hpp>
#include <gpipe/plan/options/options.hpp>

namespace example {

class options {
 public:
  explicit options(std::string synopsis) : synopsis_(std::move(synopsis)) {}

  template <class Number>
  options& number(std::string name, Number& into, std::int64_t min, std::int64_t max, std::string help) {
    return add(std::move(name), "N", std::move(help) + " (" + std::to_string(into) + ")",
               [&into, min, max](std::string_view self, std::string_view value) {
                 into = static_cast<Number>(number_in(self, value, min, max));
               });
  }
  /// One or several numbers, with commas between.
  options& numbers(std::string name, std::vector<int>& into, int min, int max, std::string help) {
    return add(std::move(name), "N", std::move(help), [&into, min, max](std::string_view self, std::string_view value) {
      std::vector<int> read;
      for (const std::string_view part : parts_of(value))
        read.push_back(static_cast<int>(number_in(self, part, min, max)));
      into = std::move(read);
    });
  }
  options& decimal(std::string name, double& into, double min, double max, std::string help) {
    std::ostringstream now, range;
    now << into;
    range << "choose " << min << " to " << max;
    return add(std::move(name), "X", std::move(help) + " (" + now.str() + ")",
               [&into, min, max, range = range.str()](std::string_view self, std::string_view value) {
                 double read = 0;
                 const auto [end, failure] =
                     gpipe::detail::parse_number(value.data(), value.data() + value.size(), read);
                 if (failure != std::errc{} || end != value.data() + value.size())
                   throw_error(self, value, "is not a number", range);
                 if (!(read >= min && read <= max)) throw_error(self, value, "is out of range", range);
                 into = read;
               });
  }
  options& text(std::string name, std::string placeholder, std::string& into, std::string help) {
    return add(std::move(name), placeholder, std::move(help),
               [&into, placeholder](std::string_view self, std::string_view value) {
                 if (value.empty()) throw_error(self, value, "is empty", "give " + placeholder);
                 into = value;
               });
  }
  /// Bytes, as in 16GiB, 500MB or 1073741824.
  options& bytes(std::string name, std::int64_t& into, std::string help) {
    return add(std::move(name), "BYTES", std::move(help),
               [&into](std::string_view self, std::string_view value) { into = bytes_in(self, value); });
  }
  /// One or several numbers of bytes, with commas between. One of them may be a word, unless that is empty.
  options& byte_list(std::string name, std::vector<std::int64_t>& into, std::string help,
                     std::pair<std::string_view, std::int64_t> word = {}) {
    return add(std::move(name), "BYTES", std::move(help), [&into, word](std::string_view self, std::string_view value) {
      std::vector<std::int64_t> read;
      for (const std::string_view part : parts_of(value))
        read.push_back(!part.empty() && part == word.first ? word.second : bytes_in(self, part));
      into = std::move(read);
    });
  }
  /// One of several words, in lower or upper case, with - or _ between its parts.
  template <class Value>
  options& choice(std::string name, Value& into, std::vector<std::pair<std::string, Value>> choices, std::string help) {
    std::string all;
    for (const auto& [word, value] : choices) {
      all += (all.empty() ? "" : "|") + word;
      if (value == into) help += " (" + word + ")";
    }
    return add(std::move(name), all, std::move(help),
               [&into, choices, all](std::string_view self, std::string_view value) {
                 into = choice_in(self, value, choices, all);
               });
  }
  /// One or several of them, with commas between, or the word all.
  template <class Value>
  options& choices(std::string name, std::vector<Value>& into, std::vector<std::pair<std::string, Value>> choices,
                   std::string help) {
    std::string all = "all";
    for (const auto& [word, value] : choices) all += "|" + word;
    return add(std::move(name), all, std::move(help),
               [&into, choices, all](std::string_view self, std::string_view value) {
                 std::vector<Value> read;
                 for (const std::string_view part : parts_of(value))
                   if (!same("all", part)) read.push_back(choice_in(self, part, choices, all));
                   else
                     for (const auto& [word, meant] : choices) read.push_back(meant);
                 into = std::move(read);
               });
  }
  options& flag(std::string name, bool& into, std::string help) {
    return add(std::move(name), "", std::move(help), [&into](std::string_view, std::string_view) { into = true; });
  }
  /// Patterns of layers with commas between, such as "h.*.mlp,layer_norm".
  options& layers(std::string name, gpipe::layer_patterns& into, std::string help) {
    return add(std::move(name), "PATTERNS", std::move(help), [&into](std::string_view self, std::string_view value) {
      static std::deque<std::string> letters;  // a pattern's letters live as long as the program
      into = {};
      for (const std::string_view part : parts_of(value)) {
        if (part.empty()) throw_error(self, value, "has an empty pattern", "write patterns with commas between");
        if (into.count == gpipe::layer_patterns::max_count)
          throw_error(self, value, "has too many patterns",
                      "give at most " + std::to_string(gpipe::layer_patterns::max_count) + "; a * stands for any part");
        into.add(letters.emplace_back(part).c_str());
      }
    });
  }
  /// Every option of a plan that has no line of its own above and is not in `without`, by the library's description.
  options& plan(gpipe::plan_options& into, std::initializer_list<std::string_view> without) {
    for (const gpipe::option_description& it : gpipe::plan_option_list) {
      std::string name = "--" + std::string(it.name);
      std::replace(name.begin(), name.end(), '_', '-');
      const auto known = [&](const option& o) { return o.name == name; };
      if (std::find(without.begin(), without.end(), it.name) != without.end() ||
          std::any_of(options_.begin(), options_.end(), known))
        continue;
      if (it.is_flag) {
        add(std::move(name), "", it.help, [&into, &it](std::string_view, std::string_view) { it.set(into, 1); });
      } else {
        std::vector<std::pair<std::string, std::int64_t>> words;  // of a choice
        for (std::int64_t x = it.range.min; x <= it.range.max; ++x) {
          std::string word = it.text(static_cast<std::uint64_t>(x));
          if (word == std::to_string(x)) break;
          words.emplace_back(std::move(word), x);
        }
        std::string all;
        for (const auto& [word, value] : words) all += (all.empty() ? "" : "|") + word;
        add(std::move(name), all.empty() ? "N" : all, it.help,
            [&into, &it, words, all](std::string_view self, std::string_view value) {
              for (const auto& [word, meant] : words)
                if (same(word, value)) return it.set(into, meant);
              if (!words.empty()) throw_error(self, value, "is not a choice", "choose one of " + all);
              std::int64_t read = 0;
              const auto [end, failure] = std::from_chars(value.data(), value.data() + value.size(), read);
              if (failure != std::errc() || end != value.data() + value.size() || read < it.range.min ||
                  read > it.range.max)
                throw_error(self, value, "is not in range", range(it.range.min, it.range.max));
              it.set(into, read);
            });
      }
    }
    return recompute_layers(into);
  }
  options& recompute_layers(gpipe::plan_options& into) {
    return layers("--recompute-layers", into.recompute_layers,
                  "layers that run forward again, and no micro-batch: paths or types,\n"
                  "                            such as \"h.*.mlp,layer_norm\"; a * stands for any part");
  }

  /// Reads the command line. Prints the help and returns false if the line has --help.
  bool read(int count, char** words) const {
    for (int i = 1; i < count; ++i) {
      std::string_view word = words[i];
      if (word == "--help") {
        help();
        return false;
      }
      std::string_view value;
      const auto equals = word.starts_with("--") ? word.find('=') : std::string_view::npos;
      if (equals != std::string_view::npos) {
        value = word.substr(equals + 1);
        word = word.substr(0, equals);
      }
      const option* found = nullptr;
      for (const option& o : options_)
        if (o.name == word) found = &o;
      if (found == nullptr) unknown(word);
      if (found->placeholder.empty()) {
        if (equals != std::string_view::npos)
          throw_error(word, value, "is not expected", "leave it out: the option takes no value");
      } else if (equals == std::string_view::npos) {
        if (i + 1 == count || std::string_view(words[i + 1]).starts_with("--"))
          throw gpipe::error("option " + found->name + " lacks its value",
                             "write " + found->name + " " + found->placeholder);
        value = words[++i];
      }
      found->take(word, value);
    }
    return true;
  }

 private:
  struct option {
    std::string name, placeholder, help;
    std::function<void(std::string_view, std::string_view)> take;
  };

  options& add(std::string name, std::string placeholder, std::string help,
               std::function<void(std::string_view, std::string_view)> take) {
    options_.push_back({std::move(name), std::move(placeholder), std::move(help), std::move(take)});
    return *this;
  }
  static bool same(std::string_view a, std::string_view b) {
    const auto lower = [](char c) { return c == '_' ? '-' : c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](char x, char y) { return lower(x) == lower(y); });
  }
  static std::int64_t number_in(std::string_view self, std::string_view value, std::int64_t min, std::int64_t max) {
    std::int64_t read = 0;
    const auto [end, failure] = std::from_chars(value.data(), value.data() + value.size(), read);
    if (failure == std::errc::invalid_argument || end != value.data() + value.size())
      throw_error(self, value, "is not a whole number", range(min, max));
    if (failure == std::errc::result_out_of_range || read < min || read > max)
      throw_error(self, value, "is out of range", range(min, max));
    return read;
  }
  template <class Value>
  static Value choice_in(std::string_view self, std::string_view value,
                         const std::vector<std::pair<std::string, Value>>& choices, const std::string& all) {
    for (const auto& [word, meant] : choices)
      if (same(word, value)) return meant;
    throw_error(self, value, "is not a choice", "choose one of " + all);
  }
  static std::int64_t bytes_in(std::string_view self, std::string_view value) {
    constexpr std::pair<std::string_view, std::int64_t> units[] = {
        {"", 1},          {"B", 1},         {"KB", 1'000},    {"MB", 1'000'000},  {"GB", 1'000'000'000},
        {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1LL << 40}, {"TB", 1'000'000'000'000}};
    const std::string remedy = "write 16GiB, 3.3MiB, 500MB or a number of bytes";
    if (value.empty()) throw_error(self, value, "is empty", "give BYTES");
    // A whole number of bytes may have more digits than a double.
    std::int64_t whole = 0;
    double number = 0;
    const char* const last = value.data() + value.size();
    const char* const exponent = value.data() + std::min(value.find_first_of("eE"), value.size());  // is no unit
    const auto [end, failure] = gpipe::detail::parse_number(value.data(), exponent, number);
    const bool is_whole = std::from_chars(value.data(), last, whole).ptr == end;
    if (failure == std::errc::invalid_argument) throw_error(self, value, "is not a number of bytes", remedy);
    if (failure == std::errc::result_out_of_range || !(number < 1e19))
      throw_error(self, value, "is out of range", remedy);
    if (!(number > 0)) throw_error(self, value, "is less than 1 byte", remedy);
    const std::string_view unit = value.substr(static_cast<std::size_t>(end - value.data()));
    for (const auto& [word, size] : units)
      if (word == unit) {
        const double bytes = number * static_cast<double>(size);
        if (bytes >= 9.2e18 || (is_whole && whole > INT64_MAX / size))
          throw_error(self, value, "is out of range", remedy);
        if (bytes < 1) throw_error(self, value, "is less than 1 byte", remedy);
        return is_whole ? whole * size : static_cast<std::int64_t>(bytes);
      }
    throw_error(self, value, "has an unknown unit", remedy);
  }
  /// The parts between commas.
  static std::vector<std::string_view> parts_of(std::string_view list) {
    std::vector<std::string_view> parts;
    for (std::size_t begin = 0; begin <= list.size();) {
      const std::size_t end = std::min(list.find(',', begin), list.size());
      parts.push_back(list.substr(begin, end - begin));
      begin = end + 1;
    }
    return parts;
  }
  static std::string range(std::int64_t min, std::int64_t max) {
    return "give a whole number from " + std::to_string(min) + " to " + std::to_string(max);
  }
  [[noreturn]] static void throw_error(std::string_view name, std::string_view value, const std::string& wrong,
                                       const std::string& remedy) {
    throw gpipe::error("option " + std::string(name) + ": " + gpipe::detail::quoted(value) + ' ' + wrong, remedy);
  }
  [[noreturn]] void unknown(std::string_view word) const {
    std::vector<std::string> names;
    for (const option& o : options_) names.push_back(o.name);
    const std::string meant = gpipe::detail::meant_by(word, names);
    throw gpipe::error("unknown option " + gpipe::detail::quoted(word),
                       meant.empty() ? "--help lists them" : "write " + meant + ", or --help, which lists all");
  }
  void help() const {
    std::cout << synopsis_ << "\n\n";
    for (const option& o : options_) {
      std::string left = "  " + o.name + (o.placeholder.empty() ? "" : " " + o.placeholder);
      if (left.size() < 28) left.resize(28, ' ');
      else left += "\n" + std::string(28, ' ');
      std::cout << left << o.help << '\n';
    }
    std::cout << "  --help                    this text\n";
  }

  std::string synopsis_;
  std::vector<option> options_;
};

}  // namespace example
