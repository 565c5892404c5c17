#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include <gpipe/core/error.hpp>
#include <gpipe/core/numbers/finite.hpp>
#include <gpipe/core/text/quantity.hpp>
#include <gpipe/train/generation/generator.hpp>

namespace gpipe {

namespace detail {

GPIPE_COLD GPIPE_INLINE decoder token_generator::started(int samples, std::span<const std::int32_t> prompt, int tokens,
                                                         int threads) const {
  decoder from(of_, *parameters_, samples, threads_for(threads));
  if (tokens < 0) throw_error({"tokens is ", tokens}, {"choose 0 or more"});
  if (prompt.empty()) throw error("the prompt has no token", "give at least one");
  // The last token that is generated needs no position.
  if (prompt.size() + index((std::max)(tokens, 1)) > index(max_tokens()) + 1)
    throw_error({"a prompt of ", prompt.size(), " tokens and ", tokens, " more are too long: the model has ",
                 max_tokens(), " positions", tokens > 1 ? ", and the last token needs none" : ""},
                {"give a shorter prompt, or generate fewer"});
  const std::int64_t below = of_.sequence.values[0].below;  // 0: no layer says so
  for (std::size_t i = 0; i < prompt.size(); ++i)
    if (prompt[i] < 0 || (below > 0 && prompt[i] >= below))
      throw_error({"token ", prompt[i], " of the prompt, at ", i, ", is not below ", below},
                  {"give tokens of the vocabulary"});
  return from;
}

GPIPE_COLD GPIPE_INLINE int token_generator::threads_for(int asked) const {
  constexpr int max = 1024;
  if (asked < 0) throw_error({"threads is ", asked}, {"choose 0 or more"});
  if (asked > max) throw_error({"threads is ", asked}, {"choose at most ", max});
  if (asked > 0) return asked;
  // Smaller models stay in the cache of a core.
  return of_.token.parameters() < (1 << 20) ? 1 : (std::max)(1, static_cast<int>(std::thread::hardware_concurrency()));
}

GPIPE_COLD GPIPE_INLINE std::span<const float> token_generator::read_prompt(decoder& from,
                                                                            std::span<const std::int32_t> prompt) {
  std::span<const float> logits;
  std::vector<std::int32_t> next(index(from.samples()));
  for (std::size_t i = 0; i < prompt.size(); ++i) {
    std::fill(next.begin(), next.end(), prompt[i]);
    logits = from.step(next, static_cast<int>(i));
  }
  return logits;
}

GPIPE_COLD GPIPE_INLINE std::vector<std::int32_t> token_generator::generate(std::span<const std::int32_t> prompt,
                                                                            const generation_options& how) const {
  if (!(how.temperature >= 0) || !is_finite(how.temperature))
    throw_error({"the temperature is ", significant(how.temperature, 6)}, {"choose 0 or more"});
  if (how.top_k < 0) throw_error({"top_k is ", how.top_k}, {"choose 0 or more"});
  decoder from = started(1, prompt, how.tokens, how.threads);
  token_sampler choose(how);
  std::vector<std::int32_t> found;
  std::span<const float> logits = read_prompt(from, prompt);
  while (static_cast<int>(found.size()) < how.tokens) {
    const int position = static_cast<int>(prompt.size() + found.size());
    found.push_back(choose(logits, position));
    if (found.back() == how.end || static_cast<int>(found.size()) == how.tokens) break;
    logits = from.step(std::span(found).last(1), position);
  }
  return found;
}

GPIPE_COLD GPIPE_INLINE std::vector<continuation> token_generator::beam_search(std::span<const std::int32_t> prompt,
                                                                               const beam_options& how) const {
  if (how.beams < 1) throw_error({"beams is ", how.beams}, {"choose at least 1"});
  if (!is_finite(how.length_power))
    throw_error({"length_power is ", significant(how.length_power, 6)}, {"choose a number, such as 0.6"});
  decoder from = started(how.beams, prompt, how.tokens, how.threads);
  const auto vocabulary = index(from.vocabulary());
  const auto score = [&](const continuation& one) {
    return one.log_probability /
           std::pow(static_cast<double>((std::max)(one.tokens.size(), std::size_t{1})), how.length_power);
  };
  const auto better = [&](const continuation& a, const continuation& b) { return score(a) > score(b); };

  std::vector<continuation> living(1), ended;
  std::span<const float> logits = read_prompt(from, prompt);
  for (int t = 0; t < how.tokens && !living.empty(); ++t) {
    struct candidate {
      std::size_t beam;
      std::int32_t token;
      double log_probability;
    };
    std::vector<candidate> candidates;
    std::vector<double> of_beam;
    for (std::size_t b = 0; b < living.size(); ++b) {
      log_probabilities(logits.subspan(b * vocabulary, vocabulary), of_beam);
      for (std::size_t token = 0; token < vocabulary; ++token)
        candidates.push_back({b, static_cast<std::int32_t>(token), living[b].log_probability + of_beam[token]});
    }
    // At most one continuation of each beam ends here, so that twice as many candidates leave n that live. The
    // first beam and the first token win among equals, so that the result is always the same.
    const auto n = index(how.beams);
    const std::size_t kept = (std::min)(2 * n, candidates.size());
    std::partial_sort(candidates.begin(), candidates.begin() + static_cast<std::ptrdiff_t>(kept), candidates.end(),
                      [](const candidate& a, const candidate& b) {
                        if (a.log_probability != b.log_probability) return a.log_probability > b.log_probability;
                        return a.beam != b.beam ? a.beam < b.beam : a.token < b.token;
                      });
    std::vector<continuation> next;
    std::vector<int> parents;
    for (std::size_t i = 0; i < kept && next.size() < n; ++i) {
      const candidate& chosen = candidates[i];
      if (chosen.token == how.end && i >= n) continue;  // n others are more likely
      continuation one = living[chosen.beam];
      one.tokens.push_back(chosen.token);
      one.log_probability = chosen.log_probability;
      if (chosen.token == how.end) {
        ended.push_back(std::move(one));
        continue;
      }
      next.push_back(std::move(one));
      parents.push_back(static_cast<int>(chosen.beam));
    }
    living = std::move(next);
    if (living.empty() || t + 1 == how.tokens) break;
    // Log probabilities only fall: no living sequence can still come before the ended ones that are better.
    std::stable_sort(ended.begin(), ended.end(), better);
    if (how.length_power == 0 && ended.size() >= n && ended[n - 1].log_probability >= living.front().log_probability)
      break;
    const int position = static_cast<int>(prompt.size()) + t;
    parents.resize(n, 0);
    from.reorder(parents, position);
    std::vector<std::int32_t> tokens(n);
    for (std::size_t i = 0; i < living.size(); ++i) tokens[i] = living[i].tokens.back();
    logits = from.step(tokens, position);
  }
  for (continuation& one : living) ended.push_back(std::move(one));
  std::stable_sort(ended.begin(), ended.end(), better);
  if (ended.size() > index(how.beams)) ended.resize(index(how.beams));
  return ended;
}

}  // namespace detail

}  // namespace gpipe
