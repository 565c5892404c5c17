#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gpipe/core/config.hpp>

namespace gpipe::detail {

/// The number of letters to insert, remove or exchange, or of neighbours to swap, that turns one word into the other
/// (Damerau, 1964).
GPIPE_COLD inline std::size_t letters_apart(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1), last, before;  // of i, i - 1 and i - 2 letters of `a`
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before = std::exchange(last, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = (std::min)({last[j - 1] + (a[i - 1] != b[j - 1]), last[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = (std::min)(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

/// The known word that was probably meant: one that differs in few letters, the nearest first; empty if there is none.
/// Words of more than 40 letters are not compared.
template <class Words>
GPIPE_COLD std::string meant_by(std::string_view word, const Words& known) {
  std::string best;
  std::size_t fewest = word.size() > 40 ? 0 : 1 + (std::min)(word.size() / 3, std::size_t{2});
  for (const auto& candidate : known)
    if (const std::size_t distance = letters_apart(word, candidate); distance < fewest)
      fewest = distance, best = candidate;
  return best;
}

/// Whether a text has the form of a pattern, in which * is any text, also none, and ? is one letter.
constexpr bool matches(std::string_view pattern, std::string_view text) {
  std::size_t p = 0, t = 0, star = pattern.npos, after = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      after = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p, ++t;
    } else if (star != pattern.npos) {  // the last star takes one letter more
      p = star + 1;
      t = ++after;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace gpipe::detail
