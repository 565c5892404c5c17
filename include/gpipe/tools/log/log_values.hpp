#pragma once

#include <array>
#include <cmath>
#include <cstdint>

#include <gpipe/record/progress.hpp>

namespace gpipe::detail {

/// A number of a log: its name in a file, and in TensorBoard.
struct log_value {
  const char* name;
  const char* tag;
  double value;  // NaN: there is none
};

// change: a logged number
/// The numbers of a step, in the order of the columns. Numbers of held-out data are only at the end of an epoch.
GPIPE_COLD inline std::array<log_value, 8> log_values(const fit_progress& progress) {
  return {{{"loss", "train/epoch_loss", progress.loss},
           {"step_loss", "train/loss", progress.step_loss},
           {"rate", "train/rate", progress.rate},
           {"norm", "train/norm", progress.norm},
           {"samples_per_second", "train/samples_per_second", progress.samples_per_second},
           {"waiting", "train/waiting", progress.waiting},
           {"held_out", "held_out/loss", progress.held_out},
           {"held_out_accuracy", "held_out/accuracy", progress.held_out_accuracy}}};
}

/// The steps of all epochs so far.
inline std::int64_t log_step(const fit_progress& progress) {
  return std::int64_t{(progress.epoch > 0 ? progress.epoch - 1 : 0)} * progress.steps + progress.step;
}

}  // namespace gpipe::detail
