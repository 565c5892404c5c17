#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/core/error.hpp>
#include <gpipe/core/hash.hpp>
#include <gpipe/core/numbers/double_bits.hpp>
#include <gpipe/core/numbers/math.hpp>
#include <gpipe/core/text/quantity.hpp>
#include <gpipe/runtime/executor.hpp>
#include <gpipe/runtime/processes/rank_layout.hpp>
#include <gpipe/tools/generation/decoder.hpp>
#include <gpipe/tools/generation/generator.hpp>
#include <gpipe/transport/contract/process_group.hpp>

namespace gpipe {

namespace detail {

// assumes: half precision is bf16
/// The name of a layer's type in float. The layers of a training in bf16 have the same parameters, in float.
GPIPE_COLD inline std::string name_in_float(std::string_view name) {
  constexpr std::string_view narrow = "gpipe::bf16";
  std::string text(name);
  for (std::size_t position = text.find(narrow); position != text.npos; position = text.find(narrow))
    text.replace(position, narrow.size(), "float");
  return text;
}

/// Throws unless both have the same layers with the same parameters.
GPIPE_COLD inline void require_same_layers(const network& trained, const network& generating) {
  if (trained.layer_count != generating.layer_count)
    throw_error({"the training's model has ", trained.layer_count, " layers, and that of the generator ",
                 generating.layer_count},
                {"make a generator of the training's model"});
  for (int l = 0; l < trained.layer_count; ++l) {
    const layer_type &a = trained.type_of(l), &b = generating.type_of(l);
    const auto same_extents = [](const parameter& x, const parameter& y) { return x.extents == y.extents; };
    if (name_in_float(a.name) != name_in_float(b.name))
      throw_error({"layer ", l, " of the training is ", a.name, ", and that of the generator is ", b.name},
                  {"make a generator of the training's model"});
    if (!std::equal(a.parameters, a.parameters + a.parameter_count, b.parameters, b.parameters + b.parameter_count,
                    same_extents))
      throw_error({"layer ", l, " ", a.name, " has parameters of other extents in the training than in the generator"},
                  {"make a generator of the training's model"});
  }
}

GPIPE_COLD GPIPE_INLINE void token_generator::take_values(const basic_trainer& training,
                                                          const generator_options& options) {
  executor& run = *training.executor_;
  run.gather();
  require_same_layers(run.net(), model_.sequence);
  process_group* const job = run.options().job;
  const agreed_value keeps[] = {agreed_value::number("whole_model of the generator", options.whole_model)};
  if (job != nullptr) job->agree(collective_kind::refresh, keeps);
  if (job == nullptr || options.whole_model || job->ranks() == 1) {  // all processes of a job read all values together
    parameters_ = std::make_shared<const decoded_parameters>(
        model_.sequence, model_.decode, layer_share(),
        [&](const array_location& source, void* target, bool) { run.read(source, target); });
    return;
  }
  const rank_layout layout(run.plan(), job);
  std::vector<int> ranks;  // of the first replica
  for (int l = 0; l < model_.sequence.layer_count; ++l)
    ranks.push_back(layout.rank_of_stage(0, run.plan().cut().stage_of(l)));
  const layer_share shared(*job, std::move(ranks));
  auto made = std::make_shared<const decoded_parameters>(
      model_.sequence, model_.decode, shared, [&](const array_location& source, void* target, bool together) {
        if (together) run.read(source, target);
        else run.read_here(source, target);
      });
  job->agree(collective_kind::refresh, keeps);  // all have packed their weights
  parameters_ = std::move(made);
}

/// `below`: the bound of the tokens; 0: no layer has one.
GPIPE_COLD inline void require_below(std::span<const std::int32_t> tokens, std::string_view name, std::int64_t below) {
  for (std::size_t i = 0; i < tokens.size(); ++i)
    if (tokens[i] < 0 || (below > 0 && tokens[i] >= below))
      throw_error({"token ", tokens[i], " of ", name, ", at ", i, ", is not below ", below},
                  {"give tokens of the vocabulary"});
}

GPIPE_COLD GPIPE_INLINE void token_generator::require_fits(std::span<const std::int32_t> prompt, int tokens) const {
  if (tokens < 0) throw_error({"tokens is ", tokens}, {"choose 0 or more"});
  if (prompt.empty()) throw error("the prompt has no token", "give at least one");
  // The last generated token needs no position.
  if (prompt.size() + index((std::max)(tokens, 1)) > index(max_tokens()) + 1)
    throw_error({"a prompt of ", prompt.size(), " tokens and ", tokens, " more are too long: the model has ",
                 max_tokens(), " positions", tokens > 1 ? ", and the last token needs none" : ""},
                {"give a shorter prompt, or generate fewer"});
  require_below(prompt, "the prompt", model_.tokens().below);
}

GPIPE_COLD GPIPE_INLINE void token_generator::require_source(const decoder& text_decoder,
                                                             std::span<const std::int32_t> source,
                                                             std::int32_t end) const {
  if (!model_.encodes()) {
    if (!source.empty())
      throw_error({"source has ", source.size(), " tokens, and the model has no encoder"},
                  {"leave the source out, or generate with an encoder_decoder"});
  } else {
    if (source.empty())
      throw error("source has no token, and the model has an encoder", "give what it reads: {.source = tokens}");
    if (source.size() > index(text_decoder.source_tokens()))
      throw_error(
          {"source has ", source.size(), " tokens, and the encoder reads at most ", text_decoder.source_tokens()},
          {"give a shorter source"});
    if (source.size() < index(text_decoder.source_tokens()) && !text_decoder.counts_source())
      throw_error({"source has ", source.size(), " tokens, and the encoder reads ", text_decoder.source_tokens(),
                   ", because not all of its attention reads lengths"},
                  {"give as many tokens, or choose attention_options{.padded = true} for all of it"});
    require_below(source, "the source", model_.sequence.values[0].below);
    if (end == -1)
      throw error("end is -1, and a model with an encoder goes on until its end", "give the token that ends a text");
  }
  if (end < -1 || end >= text_decoder.vocabulary())
    throw_error({"end is ", end, ", and the vocabulary has ", text_decoder.vocabulary(), " tokens"},
                {"give a token of the vocabulary", model_.encodes() ? "" : ", or -1 for none"});
}

template <class Options>
GPIPE_COLD decoder token_generator::started(int samples, std::span<const std::int32_t> prompt,
                                            const Options& options) const {
  std::optional<decoder> text_decoder;
  share().work([&] {  // every check before the first token: a failure is one in all processes
    text_decoder.emplace(model_, *parameters_, samples, threads_for(options.threads));
    require_fits(prompt, options.tokens);
    require_source(*text_decoder, options.source, options.end);
    if (samples > text_decoder->vocabulary())
      throw_error({"beams is ", samples, ", and the vocabulary has ", text_decoder->vocabulary(), " tokens"},
                  {"choose at most as many"});
  });
  if (model_.encodes()) text_decoder->encode(options.source);
  return std::move(*text_decoder);
}

GPIPE_COLD GPIPE_INLINE int token_generator::threads_for(int asked) const {
  constexpr int max = 1024;
  if (asked < 0) throw_error({"threads is ", asked}, {"choose 0 or more"});
  if (asked > max) throw_error({"threads is ", asked}, {"choose at most ", max});
  if (asked > 0) return asked;
  // Smaller models stay in the cache of a core.
  return model_.token.parameters() < (1 << 20) ? 1
                                               : (std::max)(1, static_cast<int>(std::thread::hardware_concurrency()));
}

GPIPE_COLD GPIPE_INLINE std::span<const float> token_generator::read_prompt(
    decoder& text_decoder, std::span<const std::int32_t> prompt) const {
  std::span<const float> logits;
  std::vector<std::int32_t> next(index(text_decoder.samples()));
  for (std::size_t i = 0; i < prompt.size(); ++i) {
    std::fill(next.begin(), next.end(), prompt[i]);
    logits = text_decoder.step(next, static_cast<int>(i));
  }
  std::byte done{};  // also if no token follows, no process returns before the last one has logits
  share().broadcast(&done, 1, text_decoder.last_rank(), 0);
  return logits;
}

// Processes that share a generator make the same call.
GPIPE_COLD inline std::uint64_t hash_of_tokens(std::span<const std::int32_t> tokens) {
  hash sum;
  sum.add(reinterpret_cast<const std::byte*>(tokens.data()), tokens.size_bytes());
  return sum.value();
}

// change: a generation option; the check and the agreement
GPIPE_COLD GPIPE_INLINE std::vector<std::int32_t> token_generator::generate(std::span<const std::int32_t> prompt,
                                                                            const generation_options& options) const {
  if (!share().alone()) {
    const agreed_value agreed[] = {agreed_value::number("the length of the prompt", std::ssize(prompt)),
                                   {"the prompt", hash_of_tokens(prompt)},
                                   {"the source", hash_of_tokens(options.source)},
                                   agreed_value::number("tokens", options.tokens),
                                   agreed_value::number("end", options.end),
                                   agreed_value::real("temperature", options.temperature),
                                   agreed_value::number("top_k", options.top_k),
                                   agreed_value::real("top_p", options.top_p),
                                   agreed_value::number("seed", static_cast<std::int64_t>(options.seed))};
    share().agree(collective_kind::generate, agreed);
  }
  if (!(options.temperature >= 0) || !is_finite(options.temperature))
    throw_error({"the temperature is ", significant(options.temperature, 6)}, {"choose 0 or more"});
  if (options.top_k < 0) throw_error({"top_k is ", options.top_k}, {"choose 0 or more"});
  if (!(options.top_p > 0 && options.top_p <= 1))
    throw_error({"top_p is ", significant(options.top_p, 6)}, {"choose a number above 0, and at most 1"});
  if (options.temperature == 0 && (options.top_k > 0 || options.top_p < 1))
    throw_error({options.top_k > 0 ? "top_k" : "top_p", " is given, and the temperature is 0, which draws no token"},
                {"give a temperature, such as 1"});
  decoder text_decoder = started(1, prompt, options);
  token_sampler choose(options);
  std::vector<std::int32_t> found;
  std::span<const float> logits = read_prompt(text_decoder, prompt);
  while (static_cast<int>(found.size()) < options.tokens) {
    const int position = static_cast<int>(prompt.size() + found.size());
    std::int32_t token = 0;
    if (share().has_rank(text_decoder.last_rank())) share().work([&] { token = choose(logits, position); });
    share().broadcast(&token, sizeof token, text_decoder.last_rank(), 0);
    found.push_back(token);
    if (found.back() == options.end || static_cast<int>(found.size()) == options.tokens) break;
    logits = text_decoder.step(std::span(found).last(1), position);
  }
  return found;
}

/// A beam, the token after it, and the log probability of both.
struct beam_candidate {
  std::int32_t beam, token;
  double log_probability;
};

/// Fills `best` with the best of all candidates. Among equals the first beam and the first token win, so the result is
/// always the same. `logits`: [beam][vocabulary].
GPIPE_COLD inline void best_candidates(std::span<const float> logits, std::size_t vocabulary,
                                       const std::vector<continuation>& living, std::span<beam_candidate> best) {
  std::vector<beam_candidate> candidates;
  std::vector<double> of_beam;
  for (std::size_t b = 0; b < living.size(); ++b) {
    log_probabilities(logits.subspan(b * vocabulary, vocabulary), of_beam);
    for (std::size_t token = 0; token < vocabulary; ++token)
      candidates.push_back(
          {static_cast<std::int32_t>(b), static_cast<std::int32_t>(token), living[b].log_probability + of_beam[token]});
  }
  std::partial_sort(candidates.begin(), candidates.begin() + static_cast<std::ptrdiff_t>(best.size()), candidates.end(),
                    [](const beam_candidate& a, const beam_candidate& b) {
                      if (a.log_probability != b.log_probability) return a.log_probability > b.log_probability;
                      return a.beam != b.beam ? a.beam < b.beam : a.token < b.token;
                    });
  std::copy_n(candidates.begin(), best.size(), best.begin());
}

GPIPE_COLD GPIPE_INLINE std::vector<continuation> token_generator::beam_search(std::span<const std::int32_t> prompt,
                                                                               const beam_options& options) const {
  if (!share().alone()) {
    const agreed_value agreed[] = {agreed_value::number("beams", options.beams),
                                   agreed_value::number("the length of the prompt", std::ssize(prompt)),
                                   {"the prompt", hash_of_tokens(prompt)},
                                   {"the source", hash_of_tokens(options.source)},
                                   agreed_value::number("tokens", options.tokens),
                                   agreed_value::number("texts", options.texts),
                                   agreed_value::number("end", options.end),
                                   agreed_value::real("length_power", options.length_power)};
    share().agree(collective_kind::search, agreed);
  }
  if (options.beams < 1) throw_error({"beams is ", options.beams}, {"choose at least 1"});
  if (options.texts < 0 || options.texts > options.beams)
    throw_error({"texts is ", options.texts, ", and beams is ", options.beams}, {"choose 0 to ", options.beams});
  if (!is_finite(options.length_power))
    throw_error({"length_power is ", significant(options.length_power, 6)}, {"choose a number, such as 0.6"});
  decoder text_decoder = started(options.beams, prompt, options);
  const auto vocabulary = index(text_decoder.vocabulary());
  const std::size_t wanted = index(options.texts > 0 ? options.texts : options.beams);
  const auto score_at = [&](double log_probability, std::size_t length) {
    return log_probability / math::pow(static_cast<double>((std::max)(length, std::size_t{1})), options.length_power);
  };
  const auto score = [&](const continuation& text) { return score_at(text.log_probability, text.tokens.size()); };
  // Log probabilities only fall, so this is the best possible score of a longer text. For the same probability, a
  // longer text has a better score if the power is above 0.
  const auto reachable = [&](const continuation& text) {
    return score_at(text.log_probability, options.length_power > 0 ? index(options.tokens) : text.tokens.size() + 1);
  };
  const auto better = [&](const continuation& a, const continuation& b) { return score(a) > score(b); };

  std::vector<continuation> living(1), ended;
  std::span<const float> logits = read_prompt(text_decoder, prompt);
  for (int t = 0; t < options.tokens && !living.empty(); ++t) {
    // At most one continuation of each beam ends here, so 2 n candidates leave n that continue.
    const auto n = index(options.beams);
    std::vector<beam_candidate> best((std::min)(2 * n, living.size() * vocabulary));
    if (share().has_rank(text_decoder.last_rank()))
      share().work([&] { best_candidates(logits, vocabulary, living, best); });
    share().broadcast(best.data(), best.size() * sizeof best[0], text_decoder.last_rank(), 0);
    std::vector<continuation> next;
    std::vector<int> parents;
    for (std::size_t i = 0; i < best.size() && next.size() < n; ++i) {
      const beam_candidate& chosen = best[i];
      if (chosen.token == options.end && i >= n) continue;  // n others are more likely
      continuation text = living[index(chosen.beam)];
      text.tokens.push_back(chosen.token);
      text.log_probability = chosen.log_probability;
      if (chosen.token == options.end) {
        ended.push_back(std::move(text));
        continue;
      }
      next.push_back(std::move(text));
      parents.push_back(chosen.beam);
    }
    living = std::move(next);
    if (living.empty() || t + 1 == options.tokens) break;
    std::stable_sort(ended.begin(), ended.end(), better);
    if (ended.size() >= wanted && score(ended[wanted - 1]) >= reachable(living.front())) break;
    const int position = static_cast<int>(prompt.size()) + t;
    parents.resize(n, 0);
    text_decoder.reorder(parents, position);
    std::vector<std::int32_t> tokens(n);
    for (std::size_t i = 0; i < living.size(); ++i) tokens[i] = living[i].tokens.back();
    logits = text_decoder.step(tokens, position);
  }
  for (continuation& text : living) ended.push_back(std::move(text));
  std::stable_sort(ended.begin(), ended.end(), better);
  if (ended.size() > wanted) ended.resize(wanted);
  return ended;
}

}  // namespace detail

}  // namespace gpipe
