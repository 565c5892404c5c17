#include "../examples/translate/sentences_by_length.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

using namespace gpipe;
using namespace example;

namespace {

/// 900 sentences of "a", 100 of "b" and 10 of "c", with 2 to 14 pieces.
struct three_languages {
  std::vector<sentence_pair> all;
  pairs_by_language languages;

  three_languages() {
    const auto add = [&](const std::string& language, int count) {
      for (int i = 0; i < count; ++i) {
        const auto pieces = static_cast<std::size_t>(2 + i * i % 13);
        all.push_back(
            {language, language + std::to_string(i), "e", std::vector<std::int32_t>(pieces, i % 50 + 4), {4}});
      }
    };
    add("a", 900), add("b", 100), add("c", 10);
    for (const sentence_pair& it : all) languages[it.language].push_back(&it);
  }
};

by_length_settings settings(double temperature, int in_epoch = 500) {
  return {.lengths = {4, 8, 16}, .tokens = 64, .temperature = temperature, .seed = 3, .in_epoch = in_epoch};
}

std::map<std::string, int> drawn(const sentences_by_length& from, std::uint64_t epoch) {
  std::map<std::string, int> counts;
  for (const sentence_pair* const it : from.sentences(epoch)) ++counts[it->language];
  return counts;
}

}  // namespace

TEST_CASE("languages are drawn by their size to the power 1 / T") {
  const three_languages data;
  for (const double t : {1.0, 2.0, 5.0, 1000.0}) {
    const sentences_by_length from(data.languages, settings(t));
    double sum = 0;
    for (const auto& [language, pairs] : data.languages) sum += std::pow(pairs.size(), 1 / t);
    std::map<std::string, int> counts;
    constexpr int epochs = 40;
    for (std::uint64_t epoch = 0; epoch < epochs; ++epoch)
      for (const auto& [language, count] : drawn(from, epoch)) {
        counts[language] += count;
        CHECK(std::abs(count - 500 * std::pow(data.languages.at(language).size(), 1 / t) / sum) <=
              3);  // a length's one
      }
    for (const auto& [language, pairs] : data.languages)
      CHECK(std::abs(counts[language] - epochs * 500 * std::pow(pairs.size(), 1 / t) / sum) < 0.01 * epochs * 500);
  }
}

TEST_CASE("the epochs of a language go through all its sentences") {
  const three_languages data;
  const sentences_by_length from(data.languages, settings(1, 101));
  std::map<const sentence_pair*, int> seen;
  for (std::uint64_t epoch = 0; epoch < 12; ++epoch)
    for (const sentence_pair* const it : from.sentences(epoch)) ++seen[it];
  int often = 0;
  for (const auto& [it, count] : seen) often += count > 2;
  CHECK(seen.size() > 950);  // of 1,010, by 1,212 draws
  CHECK(often < 30);
}

TEST_CASE("each epoch has as many batches, and a stream begins at any with the same samples") {
  const three_languages data;
  const sentences_by_length from(data.languages, settings(5, 300));
  CHECK(from.samples() == 300);
  CHECK(from.own().tokens == 64);
  const auto numbers = [](const batch& it) {
    std::vector<std::int32_t> all;
    for (const batch::entry& f : it.entries())
      if (f.name == "inputs") {
        const auto* const first = static_cast<const std::int32_t*>(f.data);
        all.assign(first, first + f.elements);
      }
    return all;
  };
  const long count = from.own().count;
  std::vector<std::vector<std::int32_t>> all;
  const auto whole = from.open({.shuffled = true, .seed = 7, .epochs = 3});
  int samples = 0;
  while (const batch* const it = whole->next()) {
    all.push_back(numbers(*it)), samples += it->samples();
    CHECK(numbers(*it).size() % static_cast<std::size_t>(it->samples()) == 0);
  }
  REQUIRE(all.size() == static_cast<std::size_t>(3 * count));
  CHECK(samples == 900);
  // The pieces of the first and the second epoch: other sentences, and not only in another order.
  const auto sorted_pieces = [&](long first) {
    std::vector<std::int32_t> found;
    for (long i = first; i < first + count; ++i)
      found.insert(found.end(), all[static_cast<std::size_t>(i)].begin(), all[static_cast<std::size_t>(i)].end());
    std::sort(found.begin(), found.end());
    return found;
  };
  CHECK(sorted_pieces(0) != sorted_pieces(count));
  for (const long at : {0L, 1L, count - 1, count, count + 3, 2 * count, 3 * count - 1}) {
    const auto rest = from.open(
        {.shuffled = true, .seed = 7, .first = {static_cast<std::uint64_t>(at / count), at % count}, .epochs = 3});
    for (std::size_t i = static_cast<std::size_t>(at); i < all.size(); ++i) {
      const batch* const it = rest->next();
      REQUIRE(it != nullptr);
      CHECK(numbers(*it) == all[i]);
    }
    CHECK(rest->next() == nullptr);
  }
}
