#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <gpipe/core/build_mode.hpp>
#include <gpipe/train/basic_trainer.hpp>
#include <gpipe/train/generation/decoder.hpp>
#include <gpipe/train/generation/sampling.hpp>

namespace gpipe {

/// How `beam_search` looks for the most likely continuation.
struct beam_options {
  int tokens = 100;         ///< at most, after the prompt
  int beams = 4;            ///< sequences that live on at each position; one that ends takes no place of theirs
  std::int32_t end = -1;    ///< a sequence ends behind this token; -1: there is none
  double length_power = 0;  ///< sequences compare by log probability / length^this; 0: by log probability
  int threads = 0;          ///< as `generation_options::threads`
};

/// A continuation that `beam_search` found.
struct continuation {
  std::vector<std::int32_t> tokens{};  ///< behind the prompt
  double log_probability = 0;
};

namespace detail {

/// The part of a generator that does not depend on the model's type.
class token_generator {
 public:
  explicit token_generator(const decoded_model& of) : of_(of) {}

  /// The longest sequence, with its prompt.
  int max_tokens() const { return static_cast<int>(of_.sequence.values[0].part.size); }

  std::vector<std::int32_t> generate(std::span<const std::int32_t> prompt, const generation_options& how = {}) const;
  std::vector<continuation> beam_search(std::span<const std::int32_t> prompt, const beam_options& how = {}) const;

  /// A container of tokens.
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
  void set_values(std::span<const std::byte> values) {
    parameters_ = std::make_shared<const decoded_parameters>(of_.sequence, of_.decode, values);
  }

 private:
  decoder started(int samples, std::span<const std::int32_t> prompt, int tokens, int threads) const;
  int threads_for(int asked) const;
  static std::span<const float> read_prompt(decoder& from, std::span<const std::int32_t> prompt);

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
/// It has a copy of the parameters, packed once, and works on the host. Keys and values of earlier tokens are kept, so
/// that a token costs one row. The tokens are the same for every number of stages and of threads. Several threads may
/// generate at once. In a job of processes every process calls the constructor and `refresh`; no text may be under way
/// then.
template <class Model>
class generator : public detail::token_generator {
  static_assert(Model::entering::rank == 1 && dtype_of<typename Model::entering::value_type> == dtype::int32,
                "gpipe: generator<Model> needs a model whose input is tokens: input<std::int32_t, Tokens>");

 public:
  template <class Device>
  explicit generator(const basic_trainer<Device>& training)
      : token_generator({network_of<Model>, network_of<detail::of_one_token<Model>>,
                         detail::decode_rows<Model, host::context>.rows,
                         detail::forward_rows<Model, host::context>.rows}) {
    refresh(training);
  }

  /// Copies the parameters again, after steps.
  template <class Device>
  void refresh(const basic_trainer<Device>& training) {
    std::vector<std::byte> values;
    training.keep_values(values);
    set_values(values);
  }
};

}  // namespace gpipe

#if !GPIPE_COMPILED
#include <gpipe/train/generation/generator-inl.hpp>
#endif
