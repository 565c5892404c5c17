#pragma once

#include <gpipe/plan/cost/profile.hpp>

#include <vector>

namespace gpipe {

// change: a profile from a file; owns the names
/// A profile with its lines, measured while the program runs. `plan_options{.profile = costs.view()}` plans with it; it
/// must outlive the plan. Written to a file, it is the table of `profiled<measured>`.
struct measured_profile {
  std::vector<measured_layer> layers;
  int micro_batch_size = 0;

  profile view() const& { return {layers.data(), static_cast<int>(layers.size()), micro_batch_size}; }
  profile view() const&& = delete;  // keep the measured profile for as long as its view
};

}  // namespace gpipe
