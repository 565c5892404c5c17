#pragma once

#include <gpipe/plan/cost/layer_cost.hpp>

namespace gpipe {

/// The costs of every layer on the device of each stage, in picoseconds. The array belongs to the caller.
struct stage_costs {
  const layer_cost* costs = nullptr;  ///< [kind][layer]: one kind of device, or one per stage
  int layers = 0;
  bool per_stage = false;

  constexpr int kinds(int stages) const { return per_stage ? stages : 1; }
  constexpr const layer_cost* of(int stage) const { return costs + (per_stage ? stage * layers : 0); }
};

}  // namespace gpipe
