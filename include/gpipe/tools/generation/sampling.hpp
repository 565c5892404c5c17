#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/core/numbers/math.hpp>
#include <gpipe/core/numbers/random.hpp>

namespace gpipe {

// change: a generation option
/// The options of generated text.
struct generation_options {
  int tokens = 100;        ///< at most, after the prompt
  double temperature = 0;  ///< logits are divided by it; 0: the most likely token, always
  int top_k = 0;           ///< draws only from this number of the most likely tokens; 0: from all
  /// Draws only from the fewest of the most likely tokens, among the `top_k`, whose probabilities sum to at least this:
  /// the nucleus (Holtzman et al., 2020); 1: from all.
  double top_p = 1;
  std::uint64_t seed = 1;  ///< of the draws
  std::int32_t end = -1;   ///< generation stops after this token; -1: there is none
  /// Threads that share products, at most 1024; 0: one, or all cores for a model of 2^20 parameters or more.
  int threads = 0;
  /// Tokens that the encoder of a model reads, at most as many as it has positions; none if there is no encoder.
  std::vector<std::int32_t> source{};
};

namespace detail {

/// The index of the largest logit, the first among equals.
GPIPE_COLD inline std::int32_t likeliest(std::span<const float> logits) {
  return static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

/// log(e^logits / sum e^logits) of each token.
GPIPE_COLD inline void log_probabilities(std::span<const float> logits, std::vector<double>& result) {
  const double largest = static_cast<double>(*std::max_element(logits.begin(), logits.end()));
  double sum = 0;
  for (const float x : logits) sum += math::exp(static_cast<double>(x) - largest);
  result.clear();
  for (const float x : logits) result.push_back(static_cast<double>(x) - largest - math::log(sum));
}

// change: a generation option
/// Draws a token with probability e^(logit / temperature) / sum, among the `top_k` most likely and then the nucleus of
/// `top_p`; among equals the first. Equal seeds and positions draw equal tokens.
class token_sampler {
 public:
  explicit token_sampler(const generation_options& options) : options_(options) {}

  GPIPE_COLD std::int32_t operator()(std::span<const float> logits, int position) {
    if (options_.temperature == 0) return likeliest(logits);
    order_.resize(logits.size());
    for (std::size_t i = 0; i < logits.size(); ++i) order_[i] = static_cast<std::int32_t>(i);
    const auto likelier = [&](std::int32_t a, std::int32_t b) {
      const float x = logits[static_cast<std::size_t>(a)], y = logits[static_cast<std::size_t>(b)];
      return x > y || (x == y && a < b);
    };
    std::size_t kept = order_.size();
    if (options_.top_k > 0 && static_cast<std::size_t>(options_.top_k) < kept)
      kept = static_cast<std::size_t>(options_.top_k);
    std::partial_sort(order_.begin(), order_.begin() + static_cast<std::ptrdiff_t>(kept), order_.end(), likelier);
    const auto logit = [&](std::size_t i) { return static_cast<double>(logits[static_cast<std::size_t>(order_[i])]); };
    sums_.clear();
    double sum = 0;
    for (std::size_t i = 0; i < kept; ++i)
      sums_.push_back(sum += math::exp((logit(i) - logit(0)) / options_.temperature));
    if (options_.top_p < 1) {
      const auto reached = std::lower_bound(sums_.begin(), sums_.end(), options_.top_p * sum);
      kept = (std::min)(static_cast<std::size_t>(reached - sums_.begin()) + 1, kept);
      sum = sums_[kept - 1];
    }
    const random_words words = draw({options_.seed, 0, 0, 0}, static_cast<std::uint32_t>(position), 0);
    const double threshold = sum * static_cast<double>(uniform(words.word[0]));  // in [0, sum)
    const auto found = std::upper_bound(sums_.begin(), sums_.begin() + static_cast<std::ptrdiff_t>(kept), threshold);
    return order_[(std::min)(static_cast<std::size_t>(found - sums_.begin()), kept - 1)];
  }

 private:
  generation_options options_;
  std::vector<std::int32_t> order_;
  std::vector<double> sums_;
};

}  // namespace detail

}  // namespace gpipe
