#pragma once

#include <gpipe/plan/cost/profile.hpp>

// The time of each layer for one micro-batch: forward, backward's input part, its parameter part; medians, in ns.
struct measured {
  static constexpr int micro_batch_size = 4;
  static constexpr gpipe::measured_layer layers[] = {
      {0, "linear<8>", 900, 0, 800},
      {1, "relu", 10, 11, 0},
      {2, "linear<8>", 13, 14, 15},
      {3, "relu", 1, 2, 0},
  };
};
