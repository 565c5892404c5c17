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
  double value;  // not a number: there is none
};

/// The numbers of a step, in the order of the columns. Those of held-out data are only at the end of an epoch.
GPIPE_COLD inline std::array<log_value, 8> log_values(const fit_progress& now) {
  return {{{"loss", "train/epoch_loss", now.loss},
           {"step_loss", "train/loss", now.step_loss},
           {"rate", "train/rate", now.rate},
           {"norm", "train/norm", now.norm},
           {"samples_per_second", "train/samples_per_second", now.samples_per_second},
           {"waiting", "train/waiting", now.waiting},
           {"held_out", "held_out/loss", now.held_out},
           {"held_out_accuracy", "held_out/accuracy", now.held_out_accuracy}}};
}

/// The steps of all epochs so far.
inline std::int64_t log_step(const fit_progress& now) {
  return std::int64_t{(now.epoch > 0 ? now.epoch - 1 : 0)} * now.steps + now.step;
}

}  // namespace gpipe::detail
