#pragma once

#include <gpipe/generate.hpp>
#include <gpipe/lengths.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/model/encoder_decoder.hpp>
#include <gpipe/tools/scores/text_scores.hpp>
#include <gpipe/train/fit.hpp>
#include <gpipe/train/trainer.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "corpus.hpp"

namespace bench {

/// A translator of width 128: T(Layers, Hidden, Heads) with heads of 64. `Recipe` is the paper's for deep models:
/// weights scaled by depth at the start, and clipped logits.
template <int Layers, int Hidden, int Heads, bool Recipe = true>
struct translator {
  template <int Pieces>
  using net = gpipe::encoder_decoder<Layers, Hidden, Heads,
                                     gpipe::encoder_decoder_options{.source_tokens = Pieces,
                                                                    .vocabulary = all_pieces,
                                                                    .width = 128,
                                                                    .dropout = 10,
                                                                    .smoothing = 0.1,
                                                                    .clip = Recipe ? 30.0 : 0.0,
                                                                    .depth_scaled = Recipe,
                                                                    .final_norms = true}>;
  using by_length = gpipe::lengths<net, longest_text / 2, longest_text>;
};

/// A training: what it reads, and how.
struct trial {
  std::vector<std::string> languages{};  ///< none: all
  double temperature = 5;
  int micro_batches = 1;  ///< of a step, with 1,024 positions a side each, padding included
  std::uint64_t steps = 0;
  double rate = 2e-3;
  std::uint64_t seed = 1;
};

struct language_score {
  double loss = 0;                 ///< a piece, of held-out sentences
  std::vector<std::string> texts;  ///< the translations
};
struct outcome {
  std::map<std::string, language_score> languages;
  double loss = 0;        ///< a piece, the mean of the last tenth of the training
  bool diverged = false;  ///< a loss that is not finite, or is above that of equally likely pieces
};

/// Trains in the thread that calls, and translates the held-out sentences of the tested languages that were trained.
template <class Translator>
outcome run(const trial& how, const corpus& from) {
  using namespace gpipe;
  example::pairs_by_language chosen;
  for (const auto& [language, pairs] : from.languages())
    if (how.languages.empty() || std::find(how.languages.begin(), how.languages.end(), language) != how.languages.end())
      chosen[language] = pairs;
  constexpr int micro_batch = 32;
  const example::sentences_by_length sentences(chosen, {.lengths = {longest_text / 2, longest_text},
                                                        .tokens = how.micro_batches * micro_batch * longest_text,
                                                        .temperature = how.temperature,
                                                        .seed = how.seed});
  trainer<typename Translator::by_length, adamw> training{
      plan_options{.stages = 1, .micro_batches = how.micro_batches, .micro_batch_size = micro_batch},
      adamw{.learning_rate = how.rate, .beta2 = 0.98, .weight_decay = 0.01},
      {.seed = how.seed,
       .learning_rate_schedule = warm_up{std::min<std::uint64_t>(400, how.steps / 10 + 1), cosine{how.steps, 0.05}},
       .max_grad_norm = 1,
       .groups = {no_decay_for_biases_and_norms()}}};
  outcome found;
  const auto count = static_cast<double>(how.steps / 10 + 1);
  try {
    fit(training, sentences, {.epochs = INT32_MAX, .seed = how.seed}, [&](const fit_progress& now) {
      if (training.steps() + how.steps / 10 >= how.steps) found.loss += now.step_loss / count;
      return training.steps() < how.steps ? loop_control::go : loop_control::stop;
    });
  } catch (const error&) {
    found.loss = NAN;
  }
  found.diverged = !(found.loss < std::log(all_pieces));
  if (std::isnan(found.loss)) return found;
  const generator<typename Translator::template net<longest_text>> writer(training);
  for (const tested_language& it : from.tested()) {
    if (chosen.count(it.name) == 0) continue;
    language_score& of = found.languages[it.name];
    const dataset held_out = example::fields_of(it.held_out, longest_text, longest_text);
    of.loss = training.evaluate(held_out).loss;
    for (const example::sentence_pair* const pair : it.held_out)
      of.texts.push_back(from.words().text(
          writer.generate({example::begin_of_text},
                          {.tokens = longest_text, .end = example::end_of_text, .source = pair->source_pieces})));
  }
  return found;
}

/// Loss and chrF over the languages of a class: the mean of their losses, and the chrF of all their texts.
struct class_score {
  double loss = 0, chrf = 0;
  bool any = false;
};
template <class Outcome_of>
class_score score(const corpus& from, example::resource of, Outcome_of outcome_of) {
  class_score found;
  std::vector<std::string> texts, right;
  int languages = 0;
  for (const tested_language& it : from.tested()) {
    if (it.of != of) continue;
    const outcome& its = outcome_of(it.name);
    const auto at = its.languages.find(it.name);
    if (at == its.languages.end()) return {};
    found.loss += at->second.loss;
    ++languages;
    texts.insert(texts.end(), at->second.texts.begin(), at->second.texts.end());
    for (const auto* const pair : it.held_out) right.push_back(pair->english);
  }
  if (languages == 0) return {};
  return {found.loss / languages, gpipe::chrf(texts, right), true};
}

/// Runs all jobs, each in one thread, two at a time: one for each of two cores, so that none waits for another.
inline void run_two_at_a_time(const std::vector<std::function<void()>>& jobs) {
  std::atomic<std::size_t> next = 0;
  std::array<std::exception_ptr, 2> failed;
  const auto work = [&](std::exception_ptr& own) {
    try {
      for (std::size_t i; (i = next++) < jobs.size();) jobs[i]();
    } catch (...) {
      own = std::current_exception();
      next = jobs.size();
    }
  };
  std::thread other(work, std::ref(failed[1]));
  work(failed[0]);
  other.join();
  for (const std::exception_ptr& it : failed)
    if (it) std::rethrow_exception(it);
}

}  // namespace bench
