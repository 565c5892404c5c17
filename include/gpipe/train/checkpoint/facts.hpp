#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include <gpipe/core/config.hpp>
#include <gpipe/core/descriptions/data_position.hpp>
#include <gpipe/core/error.hpp>
#include <gpipe/record/checkpoint/header.hpp>
#include <gpipe/record/checkpoint/safetensors_set.hpp>

namespace gpipe::detail {

// change: the random number generator; the user's choice
// change: checkpoint contents; a number or a text; older files lack it
/// The texts of a checkpoint, in the header of the optimizer's first file. The step count is in every file.
///
///     gpipe.format 2, gpipe.steps 120, gpipe.seed 7,
///     gpipe.epoch 2, gpipe.batch 13, gpipe.batch_size 32, gpipe.samples 5000, gpipe.frozen 0.weight, 0.bias,
///     gpipe.optimizer adamw, gpipe.optimizer_trial 0.87...,
///     gpipe.rate 0.001, gpipe.groups *.bias: rate_factor 1, weight_decay 0
struct checkpoint_facts {
  static constexpr std::uint64_t newest_format = 2;

  std::uint64_t steps = 0, seed = 0;
  data_position position{};
  std::string optimizer{};        ///< the name of its type
  std::string optimizer_trial{};  ///< the result of two updates with its settings
  std::string rate{};             ///< of the next step
  std::string groups{};           ///< of parameters
  /// The paths of the parameters frozen by `freeze`, one per line; nullopt: a checkpoint of format 1, which does not
  /// store them.
  std::optional<std::string> frozen = "";

  safetensors_metadata texts() const;
};

/// Throws if files of a checkpoint are of different steps.
void require_one_step(const std::deque<safetensors_set>& sets);

/// Throws if a text is missing or is no number, or if the format is newer than this library.
checkpoint_facts read_facts(const safetensors_metadata& texts, const std::string& file);

}  // namespace gpipe::detail

#if !GPIPE_COMPILED
#include <gpipe/train/checkpoint/facts-inl.hpp>
#endif
