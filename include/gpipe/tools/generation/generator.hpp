#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <vector>

#include <gpipe/core/build_mode.hpp>
#include <gpipe/plan/memory/array_location.hpp>
#include <gpipe/plan/step_plan.hpp>
#include <gpipe/tools/generation/decoder.hpp>
#include <gpipe/tools/generation/layer_share.hpp>
#include <gpipe/tools/generation/sampling.hpp>
#include <gpipe/train/basic_trainer.hpp>
#include <gpipe/transport/contract/process_group.hpp>

namespace gpipe {

/// How `beam_search` looks for the most likely continuation.
struct beam_options {
  int tokens = 100;         ///< at most, after the prompt
  int beams = 4;            ///< sequences that live on at each position; one that ends takes no place of theirs
  std::int32_t end = -1;    ///< a sequence ends behind this token; -1: there is none
  double length_power = 0;  ///< sequences compare by log probability / length^this; 0: by log probability
  int threads = 0;          ///< as `generation_options::threads`
  /// Continuations that are wanted, at most `beams`: the search ends when no sequence that lives on can come before
  /// the last of them; 0: `beams`.
  int texts = 0;
  std::vector<std::int32_t> source{};  ///< as `generation_options::source`
};

/// A continuation that `beam_search` found.
struct continuation {
  std::vector<std::int32_t> tokens{};  ///< behind the prompt
  double log_probability = 0;
};

/// A choice for a generator in a job of processes.
struct generator_options {
  bool whole_model = false;  ///< a process keeps all layers and generates alone; else it keeps those of its own stages
};

namespace detail {

/// The part of a generator that does not depend on the model's type.
class token_generator {
 public:
  explicit token_generator(const decoded_model& of) : of_(of) {}

  /// The longest sequence, with its prompt.
  int max_tokens() const { return static_cast<int>(of_.tokens().part.size); }

  /// The longest source of a model with an encoder; 0: there is no encoder.
  int max_source_tokens() const { return of_.encodes() ? static_cast<int>(of_.sequence.values[0].part.size) : 0; }

  /// The bytes of the parameters that this process has, and of what layers derive from them.
  std::size_t parameter_bytes() const { return parameters_->bytes(); }

  std::vector<std::int32_t> generate(std::span<const std::int32_t> prompt, const generation_options& how = {}) const;
  std::vector<continuation> beam_search(std::span<const std::int32_t> prompt, const beam_options& how = {}) const;

  /// Tokens in braces, or a container of them.
  std::vector<std::int32_t> generate(std::initializer_list<std::int32_t> prompt,
                                     const generation_options& how = {}) const {
    return generate(std::span<const std::int32_t>(prompt.begin(), prompt.size()), how);
  }
  std::vector<continuation> beam_search(std::initializer_list<std::int32_t> prompt,
                                        const beam_options& how = {}) const {
    return beam_search(std::span<const std::int32_t>(prompt.begin(), prompt.size()), how);
  }
  template <class Prompt>
  std::vector<std::int32_t> generate(const Prompt& prompt, const generation_options& how = {}) const {
    return generate(std::span<const std::int32_t>(prompt), how);
  }
  template <class Prompt>
  std::vector<continuation> beam_search(const Prompt& prompt, const beam_options& how = {}) const {
    return beam_search(std::span<const std::int32_t>(prompt), how);
  }

 protected:
  /// Packs the parameters, once for all texts.
  void take_values(const basic_trainer& training, const generator_options& how) {
    training.gather();
    take(training.net(), training.plan(), training.job(), how,
         [&](const array_location& from, void* into, bool together) {
           if (together) training.read_value(from, into);
           else training.read_own_value(from, into);
         });
  }

 private:
  void take(const network& trained, const step_plan& plan, process_group* job, const generator_options& how,
            const decoded_parameters::value_reader& read);
  void require_fits(std::span<const std::int32_t> prompt, int tokens) const;
  void require_source(const decoder& from, std::span<const std::int32_t> source, std::int32_t end) const;
  const layer_share& share() const { return parameters_->share(); }
  template <class Options>
  decoder started(int samples, std::span<const std::int32_t> prompt, const Options& how) const;
  int threads_for(int asked) const;
  std::span<const float> read_prompt(decoder& from, std::span<const std::int32_t> prompt) const;

  decoded_model of_;
  std::shared_ptr<const decoded_parameters> parameters_;
};

}  // namespace detail

/// Continues sequences of tokens by a model that was trained: one whose input is `input<std::int32_t, Tokens>` and
/// whose loss reads the logits of the token behind each. Its attention is causal.
///
///     generator<net> from(training);
///     std::vector<std::int32_t> more = from.generate(prompt, {.tokens = 100, .temperature = 0.8, .seed = 1});
///
/// A model with an encoder has a decoder that begins with `only<from<"targets", tensor<std::int32_t, N>>>`. It writes
/// behind a source, which is encoded once, and whose padding is what `lengths` say:
///
///     from.beam_search({begin}, {.end = end, .length_power = 0.6, .texts = 1, .source = words});
///
/// It has a copy of the parameters, packed once, and works on the host. Its constructor and `refresh` throw `error` if
/// the training is of another model. Keys and values of earlier tokens are kept, so
/// that a token costs one row. The tokens are the same for every number of stages and of threads. Several threads may
/// generate at once.
///
/// In a job each process has the layers of its own stages in the first replica, and no others. Every process makes the
/// same calls with the same prompts and options, one after the other, and gets the same tokens; the constructor and
/// `refresh` are such calls, too. The job lives as long as the generator. With `whole_model` each process has all
/// layers: the processes make constructor and `refresh` together, and each generates alone.
template <class Model>
class generator : public detail::token_generator {
  static_assert(Model::entering::rank == 1 && dtype_of<typename Model::entering::value_type> == dtype::int32,
                "gpipe: generator<Model> needs a model whose input is tokens: input<std::int32_t, Tokens>");

 public:
  explicit generator(const basic_trainer& training, const generator_options& how = {})
      : token_generator({network_of<Model>, network_of<detail::of_one_token<Model>>,
                         detail::decode_rows<Model, host::context>.rows,
                         detail::forward_rows<Model, host::context>.rows}),
        how_(how) {
    refresh(training);
  }

  /// Copies the parameters again, after steps.
  void refresh(const basic_trainer& training) { take_values(training, how_); }

 private:
  generator_options how_;
};

}  // namespace gpipe

#if !GPIPE_COMPILED
#include <gpipe/tools/generation/generator-inl.hpp>
#endif
