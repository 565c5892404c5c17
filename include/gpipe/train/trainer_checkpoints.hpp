#pragma once

#include <string>

#include <gpipe/core/config.hpp>
#include <gpipe/train/basic_trainer.hpp>
#include <gpipe/train/checkpoint/checkpoint_options.hpp>

namespace gpipe::detail {

struct checkpoint_facts;

/// The functions that `save`, `wait_for_save` and `load` of a trainer call.
struct trainer_checkpoints {
  static void save(basic_trainer& training, const std::string& path, const save_options& options);
  static void wait(basic_trainer& training);
  static load_result load(basic_trainer& training, const std::string& path, const load_options& options);

 private:
  static checkpoint_facts facts_of(const basic_trainer& training);
};

}  // namespace gpipe::detail

#if !GPIPE_COMPILED
#include <gpipe/train/trainer_checkpoints-inl.hpp>
#endif
