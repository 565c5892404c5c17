#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/plan/memory/array_location.hpp>
#include <gpipe/tools/generation/decoder.hpp>
#include <gpipe/tools/generation/sampling.hpp>
#include <gpipe/train/basic_trainer.hpp>
#include <gpipe/transport/contract/process_group.hpp>

namespace gpipe {

/// The options of `beam_search`, which looks for the most likely continuation.
struct beam_options {
  int tokens = 100;         ///< at most, after the prompt
  int beams = 4;            ///< sequences that continue at each position, without those that ended
  std::int32_t end = -1;    ///< a sequence ends after this token; -1: there is none
  double length_power = 0;  ///< sequences compare by log probability / length^this; 0: by log probability
  int threads = 0;          ///< as `generation_options::threads`
  /// The number of continuations wanted, at most `beams`: the search ends when no continuing sequence can be better
  /// than the last of them; 0: `beams`.
  int texts = 0;
  std::vector<std::int32_t> source{};  ///< as `generation_options::source`
};

/// A continuation that `beam_search` found.
struct continuation {
  std::vector<std::int32_t> tokens{};  ///< after the prompt
  double log_probability = 0;
};

/// A choice for a generator in a job of processes.
struct generator_options {
  bool whole_model =
      false;  ///< a process keeps all layers and generates alone; otherwise only the layers of its stages
};

namespace detail {

/// The part of a generator that does not depend on the model's type.
class token_generator {
 public:
  explicit token_generator(const decoded_model& model) : model_(model) {}

  /// The longest sequence, including its prompt.
  int max_tokens() const { return static_cast<int>(model_.tokens().part.size); }

  /// The longest source of a model with an encoder; 0: there is no encoder.
  int max_source_tokens() const { return model_.encodes() ? static_cast<int>(model_.sequence.values[0].part.size) : 0; }

  /// The bytes of this process's parameters and of the values that layers derive from them.
  std::size_t parameter_bytes() const { return parameters_->bytes(); }

  std::vector<std::int32_t> generate(std::span<const std::int32_t> prompt,
                                     const generation_options& options = {}) const;
  std::vector<continuation> beam_search(std::span<const std::int32_t> prompt, const beam_options& options = {}) const;

  /// Tokens in braces, or a container of them.
  std::vector<std::int32_t> generate(std::initializer_list<std::int32_t> prompt,
                                     const generation_options& options = {}) const {
    return generate(std::span<const std::int32_t>(prompt.begin(), prompt.size()), options);
  }
  std::vector<continuation> beam_search(std::initializer_list<std::int32_t> prompt,
                                        const beam_options& options = {}) const {
    return beam_search(std::span<const std::int32_t>(prompt.begin(), prompt.size()), options);
  }
  template <class Prompt>
  std::vector<std::int32_t> generate(const Prompt& prompt, const generation_options& options = {}) const {
    return generate(std::span<const std::int32_t>(prompt), options);
  }
  template <class Prompt>
  std::vector<continuation> beam_search(const Prompt& prompt, const beam_options& options = {}) const {
    return beam_search(std::span<const std::int32_t>(prompt), options);
  }

 protected:
  /// Packs the parameters, once for all texts.
  void take_values(const basic_trainer& training, const generator_options& options);

 private:
  void require_fits(std::span<const std::int32_t> prompt, int tokens) const;
  void require_source(const decoder& text_decoder, std::span<const std::int32_t> source, std::int32_t end) const;
  const layer_share& share() const { return parameters_->share(); }
  template <class Options>
  decoder started(int samples, std::span<const std::int32_t> prompt, const Options& options) const;
  int threads_for(int asked) const;
  std::span<const float> read_prompt(decoder& text_decoder, std::span<const std::int32_t> prompt) const;

  decoded_model model_;
  std::shared_ptr<const decoded_parameters> parameters_;
};

}  // namespace detail

/// Continues sequences of tokens with a trained model. Its input is `input<std::int32_t, Tokens>`, its loss reads the
/// logits of the token after each, and its attention is causal.
///
///     generator<net> writer(training);
///     std::vector<std::int32_t> more = writer.generate(prompt, {.tokens = 100, .temperature = 0.8, .seed = 1});
///
/// A model with an encoder has a decoder that begins with `only<from<"targets", tensor<std::int32_t, N>>>`. It reads a
/// source, which is encoded once and whose padding is known from `lengths`:
///
///     writer.beam_search({begin}, {.end = end, .length_power = 0.6, .texts = 1, .source = words});
///
/// A generator has a copy of the parameters, packed once, and runs on the host. Its constructor and `refresh` throw
/// `error` if the training has another model. It keeps keys and values of earlier tokens, so a token costs one row. The
/// tokens do not depend on the number of stages or threads. Several threads may generate at once.
///
/// In a job each process has only the layers of its stages in the first replica. All processes make the same calls with
/// the same prompts and options, in the same order, and get the same tokens; this includes the constructor and
/// `refresh`. The job must outlive the generator. With `whole_model` each process has all layers: the processes call
/// the constructor and `refresh` together, and each generates alone.
template <class Model>
class generator : public detail::token_generator {
  // change: an element type; of tokens
  static_assert(Model::entering::rank == 1 && dtype_of<typename Model::entering::value_type> == dtype::int32,
                "gpipe: generator<Model> needs a model whose input is tokens: input<std::int32_t, Tokens>");

 public:
  explicit generator(const basic_trainer& training, const generator_options& options = {})
      : token_generator({network_of<Model>, network_of<detail::of_one_token<Model>>,
                         detail::decode_rows<Model, host::context>.rows,
                         detail::forward_rows<Model, host::context>.rows}),
        options_(options) {
    refresh(training);
  }

  /// Copies the parameters again, after steps.
  void refresh(const basic_trainer& training) { take_values(training, options_); }

 private:
  generator_options options_;
};

}  // namespace gpipe

#if !GPIPE_COMPILED
#include <gpipe/tools/generation/generator-inl.hpp>
#endif
