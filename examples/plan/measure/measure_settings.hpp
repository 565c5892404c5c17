#pragma once

// The command line of `plan measure`.

#include <string>

#include "../../options.hpp"

namespace example {

struct measure_settings {
  std::string out = "machine.csv";
  int steps = 20;

  bool read(int count, char** arguments) {
    return options(
               "plan measure: times layers on this CPU with 1 to 32 samples in a micro-batch, and fits a fixed time\n"
               "and one for each sample to them. `plan best --machine machine.csv` plans with these rates.")
        .text("--out", "FILE.csv", out, "the file (machine.csv)")
        .number("--steps", steps, 1, 100'000, "how often each layer is timed; its median counts")
        .read(count, arguments);
  }
};

}  // namespace example
