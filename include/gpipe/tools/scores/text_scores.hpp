#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gpipe/core/config.hpp>

namespace gpipe {

/// The similarity of texts to right ones, computed as by sacrebleu with its defaults (Post, "A call for clarity in
/// reporting BLEU scores", 2018). Texts are UTF-8; text i belongs to right text i, and counts of all texts are summed
/// before a score is computed. Throws `error` if the numbers of texts differ, or if there are none.

/// BLEU (Papineni et al., 2002), 0 to 100: the geometric mean of the shares of runs of 1 to 4 words that are in the
/// right text, too, times a penalty for texts that are too short. Words are split as by mteval-v13a. A run length
/// without a match counts as half a match, a second one as a quarter, ... (sacrebleu's "exp").
double bleu(std::span<const std::string> texts, std::span<const std::string> right);

/// chrF (Popović, 2015), 0 to 100: the F-score of runs of 1 to 6 characters without white space, in which recall counts
/// 4 times as much as precision (beta = 2).
///
///     F = 5 P R / (4 P + R),  P and R: the means over the run lengths that both sides have
double chrf(std::span<const std::string> texts, std::span<const std::string> right);

namespace detail {

/// The words of a text, as mteval-v13a splits it: ASCII punctuation is a word, except in numbers.
std::vector<std::string> words_13a(std::string_view text);

}  // namespace detail

}  // namespace gpipe

#if !GPIPE_COMPILED
#include <gpipe/tools/scores/text_scores-inl.hpp>
#endif
