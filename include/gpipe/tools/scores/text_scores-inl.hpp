#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gpipe/core/error.hpp>
#include <gpipe/tools/scores/text_scores.hpp>

namespace gpipe {

namespace detail {

/// The code points of UTF-8. A byte that begins none becomes U+DC00 plus the byte, as in Python.
GPIPE_COLD inline std::u32string code_points(std::string_view text) {
  std::u32string found;
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const std::size_t length = byte < 0x80 ? 1 : byte >> 5 == 6 ? 2 : byte >> 4 == 14 ? 3 : byte >> 3 == 30 ? 4 : 0;
    char32_t point = length <= 1 ? byte : byte & (0x7FU >> length);
    bool whole = length > 0 && i + length <= text.size();
    for (std::size_t j = 1; whole && j < length; ++j) {
      const auto next = static_cast<unsigned char>(text[i + j]);
      whole = next >> 6 == 2;
      point = point << 6 | (next & 0x3FU);
    }
    found += whole ? point : static_cast<char32_t>(0xDC00 + byte);
    i += whole ? length : 1;
  }
  return found;
}
/// White space by Unicode, as Python splits at it.
inline bool is_white(char32_t c) {
  return (c >= 9 && c <= 13) || (c >= 28 && c <= 32) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

GPIPE_COLD inline std::vector<std::u32string> split_words(const std::u32string& text) {
  std::vector<std::u32string> words(1);
  for (const char32_t c : text)
    if (!is_white(c)) words.back() += c;
    else if (!words.back().empty()) words.emplace_back();
  if (words.back().empty()) words.pop_back();
  return words;
}

GPIPE_COLD inline void replace_all(std::u32string& text, std::u32string_view pattern, std::u32string_view replacement) {
  for (std::size_t position = 0; (position = text.find(pattern, position)) != std::u32string::npos;
       position += replacement.size())
    text.replace(position, pattern.size(), replacement);
}

GPIPE_COLD inline std::vector<std::u32string> split_13a(std::string_view utf8) {
  std::u32string text = code_points(utf8);
  while (!text.empty() && is_white(text.back())) text.pop_back();
  replace_all(text, U"<skipped>", U"");
  replace_all(text, U"-\n", U"");
  replace_all(text, U"\n", U" ");
  for (const auto& [name, sign] : {std::pair{U"&quot;", U"\""}, {U"&amp;", U"&"}, {U"&lt;", U"<"}, {U"&gt;", U">"}})
    replace_all(text, name, sign);
  text = U' ' + text + U' ';

  const auto digit = [](char32_t c) { return c >= U'0' && c <= U'9'; };
  const auto mark = [](char32_t c) { return c == U'.' || c == U','; };
  // All ASCII punctuation but the apostrophe, comma, hyphen and full stop.
  const auto separate = [](char32_t c) {
    return (c >= U'{' && c <= U'~') || (c >= U'[' && c <= U'`') || (c >= U' ' && c <= U'&') ||
           (c >= U'(' && c <= U'+') || (c >= U':' && c <= U'@') || c == U'/';
  };
  std::u32string spaced;
  for (const char32_t c : text)
    if (separate(c)) (spaced += U' ') += c, spaced += U' ';
    else spaced += c;
  // Each rule takes pairs from left to right; a character belongs to one pair.
  const auto each_pair = [](const std::u32string& input, const auto& matches, const auto& write) {
    std::u32string output;
    for (std::size_t i = 0; i < input.size(); ++i)
      if (i + 1 < input.size() && matches(input[i], input[i + 1])) write(output, input[i], input[i + 1]), ++i;
      else output += input[i];
    return output;
  };
  const auto split_after = [](std::u32string& output, char32_t a, char32_t b) {
    ((output += a) += U' ') += b, output += U' ';
  };
  spaced = each_pair(
      spaced, [&](char32_t a, char32_t b) { return !digit(a) && mark(b); }, split_after);
  spaced = each_pair(
      spaced, [&](char32_t a, char32_t b) { return mark(a) && !digit(b); },
      [](std::u32string& output, char32_t a, char32_t b) { ((output += U' ') += a) += U' ', output += b; });
  spaced = each_pair(
      spaced, [&](char32_t a, char32_t b) { return digit(a) && b == U'-'; }, split_after);
  return split_words(spaced);
}

GPIPE_COLD GPIPE_INLINE std::vector<std::string> words_13a(std::string_view text) {
  std::vector<std::string> found;
  for (const std::u32string& word : split_13a(text)) {
    std::string& utf8 = found.emplace_back();
    for (const char32_t c : word) {
      const auto tail = [&](int shift) { utf8 += static_cast<char>(0x80U | (c >> shift & 0x3FU)); };
      if (c < 0x80) utf8 += static_cast<char>(c);
      else if (c < 0x800) utf8 += static_cast<char>(0xC0U | c >> 6), tail(0);
      else if (c < 0x10000) utf8 += static_cast<char>(0xE0U | c >> 12), tail(6), tail(0);
      else utf8 += static_cast<char>(0xF0U | c >> 18), tail(12), tail(6), tail(0);
    }
  }
  return found;
}

/// Runs of one length: in a text, in the right one, and in both.
struct run_counts {
  std::int64_t in_text = 0, in_right = 0, matches = 0;
};

/// Adds the runs of `length` neighbouring elements of both sequences.
template <class Sequence>
GPIPE_COLD void count_runs(const Sequence& text, const Sequence& right, std::size_t length, run_counts& sum) {
  using run = std::span<const typename Sequence::value_type>;
  const auto less = [](const run& a, const run& b) {
    return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
  };
  std::map<run, std::pair<std::int64_t, std::int64_t>, decltype(less)> counts(less);
  for (std::size_t i = 0; i + length <= text.size(); ++i) ++counts[run(text).subspan(i, length)].first;
  for (std::size_t i = 0; i + length <= right.size(); ++i) ++counts[run(right).subspan(i, length)].second;
  for (const auto& [elements, both] : counts) {
    sum.in_text += both.first;
    sum.in_right += both.second;
    sum.matches += (std::min)(both.first, both.second);
  }
}

GPIPE_COLD inline void require_pairs(std::size_t texts, std::size_t right) {
  if (texts != right || texts == 0)
    throw_error({"there are ", texts, " texts and ", right, " right ones"}, {"give a right one for each text"});
}

}  // namespace detail

GPIPE_COLD GPIPE_INLINE double bleu(std::span<const std::string> texts, std::span<const std::string> right) {
  detail::require_pairs(texts.size(), right.size());
  constexpr std::size_t max_words = 4;
  std::array<detail::run_counts, max_words> counts{};
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto text_words = detail::split_13a(texts[i]), right_words = detail::split_13a(right[i]);
    for (std::size_t n = 0; n < max_words; ++n) detail::count_runs(text_words, right_words, n + 1, counts[n]);
  }
  double logs = 0, half = 1;
  bool any = false;
  for (const detail::run_counts& runs : counts) {
    if (runs.in_text == 0) return 0;  // no text has as many words
    any = any || runs.matches > 0;
    const double matches = runs.matches > 0 ? static_cast<double>(runs.matches) : (half /= 2);
    logs += std::log(matches / static_cast<double>(runs.in_text)) / max_words;
  }
  if (!any) return 0;
  const auto length = static_cast<double>(counts[0].in_text), wanted = static_cast<double>(counts[0].in_right);
  return 100 * std::exp(logs + (std::min)(0.0, 1 - wanted / length));
}

GPIPE_COLD GPIPE_INLINE double chrf(std::span<const std::string> texts, std::span<const std::string> right) {
  detail::require_pairs(texts.size(), right.size());
  constexpr std::size_t max_characters = 6;
  constexpr double beta_squared = 4;
  std::array<detail::run_counts, max_characters> counts{};
  const auto characters = [](const std::string& text) {
    std::u32string points = detail::code_points(text);
    std::erase_if(points, detail::is_white);
    return points;
  };
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::u32string text_points = characters(texts[i]), right_points = characters(right[i]);
    // A right text that is shorter has no runs of this length.
    for (std::size_t n = 0; n < (std::min)(max_characters, right_points.size()); ++n)
      detail::count_runs(text_points, right_points, n + 1, counts[n]);
  }
  double precision = 0, recall = 0;
  int lengths = 0;
  for (const detail::run_counts& runs : counts) {
    if (runs.in_text == 0 || runs.in_right == 0) continue;
    precision += static_cast<double>(runs.matches) / static_cast<double>(runs.in_text);
    recall += static_cast<double>(runs.matches) / static_cast<double>(runs.in_right);
    ++lengths;
  }
  if (precision + recall <= 0) return 0;
  precision /= lengths, recall /= lengths;
  return 100 * (1 + beta_squared) * precision * recall / (beta_squared * precision + recall);
}

}  // namespace gpipe
