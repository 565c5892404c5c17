#include <gpipe/tools/generation/sampling.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <vector>

using namespace gpipe;

namespace {

constexpr int draws = 1000;

/// How often each token is drawn from these logits, at as many positions.
std::vector<int> counts_of(const std::vector<float>& logits, const generation_options& how) {
  detail::token_sampler choose(how);
  std::vector<int> counts(logits.size());
  for (int position = 0; position < draws; ++position) ++counts[static_cast<std::size_t>(choose(logits, position))];
  return counts;
}

std::vector<float> logits_of(const std::vector<double>& probabilities) {
  std::vector<float> logits;
  for (const double p : probabilities) logits.push_back(static_cast<float>(std::log(p)));
  return logits;
}

}  // namespace

TEST_CASE("each position of a text has a draw of its own") {
  const std::vector<float> equal(8, 1.5F);
  detail::token_sampler choose({.temperature = 1, .seed = 3});
  std::vector<int> counts(8), pairs(64);
  std::size_t before = 0;
  constexpr int positions = 6400;
  for (int position = 0; position < positions; ++position) {
    const auto token = static_cast<std::size_t>(choose(equal, position));
    ++counts[token], ++pairs[8 * before + token];
    before = token;
  }
  for (const int count : counts) CHECK(std::abs(count - positions / 8) < 5 * std::sqrt(positions / 8));
  for (const int count : pairs) CHECK(std::abs(count - positions / 64) < 5 * std::sqrt(positions / 64));
}

TEST_CASE("the first of equally likely tokens are among the top_k") {
  const std::vector<float> logits{1, 2, 2, 2, 2, 3};
  const auto counts = counts_of(logits, {.temperature = 1, .top_k = 3, .seed = 3});
  CHECK(counts[0] == 0);
  CHECK(counts[1] > 100);
  CHECK(counts[2] > 100);
  CHECK(counts[3] + counts[4] == 0);
  CHECK(counts[5] > 400);
}

TEST_CASE("the nucleus is the fewest of the most likely tokens that have the probability top_p") {
  const auto logits = logits_of({0.1, 0.5, 0.05, 0.3, 0.05});
  struct {
    double top_p;
    std::size_t kept;  // of the order 1, 3, 0, 2, 4
  } const cases[] = {{1e-9, 1}, {0.45, 1}, {0.55, 2}, {0.75, 2}, {0.85, 3}, {0.93, 4}, {0.97, 5}, {1, 5}};
  const std::size_t order[] = {1, 3, 0, 2, 4};
  for (const auto& one : cases) {
    CAPTURE(one.top_p);
    const auto counts = counts_of(logits, {.temperature = 1, .top_p = one.top_p, .seed = 5});
    for (std::size_t i = 0; i < 5; ++i) CHECK((counts[order[i]] > 0) == (i < one.kept));
  }
  // What is left keeps its proportions: 5 to 3.
  const auto two = counts_of(logits, {.temperature = 1, .top_p = 0.7, .seed = 5});
  CHECK(std::abs(two[1] - draws * 5 / 8) < 5 * std::sqrt(draws * 15 / 64.0));
}

TEST_CASE("the nucleus is one of the top_k, and of the distribution that the temperature makes") {
  const auto logits = logits_of({0.4, 0.4, 0.2});
  // Two are left, each with a half.
  CHECK(counts_of(logits, {.temperature = 1, .top_k = 2, .top_p = 0.45, .seed = 5}) == std::vector<int>{draws, 0, 0});
  CHECK(counts_of(logits, {.temperature = 1, .top_p = 0.45, .seed = 5})[1] > 0);
  // The temperature 1/2 squares probabilities: 4/9, 4/9, 1/9.
  CHECK(counts_of(logits, {.temperature = 0.5, .top_p = 0.85, .seed = 5})[2] == 0);
  CHECK(counts_of(logits, {.temperature = 1, .top_p = 0.85, .seed = 5})[2] > 0);
}
