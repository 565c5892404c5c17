#pragma once

#include <algorithm>
#include <memory>
#include <string>

#include <gpipe/core/config.hpp>
#include <gpipe/core/descriptions/parameter_group.hpp>
#include <gpipe/core/error.hpp>
#include <gpipe/core/text/quantity.hpp>
#include <gpipe/core/text/quoted.hpp>
#include <gpipe/model/path.hpp>
#include <gpipe/runtime/executor.hpp>
#include <gpipe/train/checkpoint/checkpointer.hpp>
#include <gpipe/train/trainer_checkpoints.hpp>

namespace gpipe::detail {

/// Calls `f(parameter, path)` for each parameter, by its first name.
template <class Call>
GPIPE_COLD void each_parameter(const basic_trainer& training, Call&& f) {
  const network& net = training.net();
  for_each_array(net, [&](const named_array& array) {
    if (array.kind == array_kind::parameter && net.owner(array) == array) f(array, path_of(net, array));
  });
}

// change: checkpoint contents
GPIPE_INLINE GPIPE_COLD checkpoint_facts trainer_checkpoints::facts_of(const basic_trainer& training) {
  checkpoint_facts facts;
  facts.optimizer = training.optimizer_name_;
  facts.optimizer_trial = exact_text(training.optimizer_trial_);
  facts.rate = exact_text(training.rate());
  for (const parameter_group& group : training.executor_->options().groups)
    facts.groups.append(facts.groups.empty() ? "" : "; ").append(text_of(group));
  std::string frozen;
  each_parameter(training, [&](const named_array& array, const std::string& path) {
    if (training.frozen_[index(array.layer_index)][index(array.index)])
      frozen.append(frozen.empty() ? "" : "\n").append(path);
  });
  facts.frozen = frozen;
  return facts;
}

GPIPE_INLINE GPIPE_COLD void trainer_checkpoints::save(basic_trainer& training, const std::string& path,
                                                       const save_options& options) {
  wait(training);
  if (training.accumulated() > 0)
    throw_error({"the gradients of ", training.accumulated(), " accumulated calls wait for a step, and are not saved"},
                {"take the step, or call discard_accumulated"});
  const checkpointer saver(*training.executor_, system_files());
  // change: a checkpoint file format
  if (path.ends_with(".safetensors")) return saver.save_model(path, options);
  if (!training.plan().trains)
    throw_error({"a predictor has no training to save in the folder ", detail::quoted(path)},
                {"save its weights, to a path that ends with .safetensors"});
  if (training.saving_ == nullptr) training.saving_ = std::make_shared<saving>();
  saver.save(path, options, facts_of(training), training.saving_->writer, training.saving_->copy);
}

GPIPE_INLINE GPIPE_COLD void trainer_checkpoints::wait(basic_trainer& training) {
  if (training.saving_ != nullptr) training.saving_->writer.finish();
}

GPIPE_INLINE GPIPE_COLD load_result trainer_checkpoints::load(basic_trainer& training, const std::string& path,
                                                              const load_options& options) {
  wait(training);
  checkpoint_facts facts = facts_of(training);
  const std::string before = *facts.frozen;
  load_result result = checkpointer(*training.executor_, system_files()).load(path, options, facts);
  if (facts.frozen && *facts.frozen != before)
    each_parameter(training, [&](const named_array& array, const std::string& name) {
      const bool frozen = std::find(result.frozen.begin(), result.frozen.end(), name) != result.frozen.end();
      training.executor_->freeze_here(array, frozen);
      training.frozen_[index(array.layer_index)][index(array.index)] = frozen;
    });
  return result;
}

}  // namespace gpipe::detail
