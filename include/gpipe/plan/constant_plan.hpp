#pragma once

#include <gpipe/core/config.hpp>
#include <gpipe/model/network.hpp>
#include <gpipe/plan/memory/requirements.hpp>
#include <gpipe/plan/options/plan_options.hpp>
#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/plan/stages/cut.hpp>
#include <gpipe/plan/step_plan.hpp>

namespace gpipe::detail {

/// The arrays of a plan that the compiler has made and checked. S stages, W workers, M micro-batches.
struct plan_constants {
  const char* schedule;
  bool trains;
  int workers, group_gradients;
  gpipe::cut cut;
  const int* workers_of_stages;  ///< [S]
  const stage_link* links;
  int link_count;
  const int* slots_of_links;                        ///< [link][2][M]: as in `link_slots`
  const int* slots_of_stages;                       ///< [S][4][M]: as in `stage_slots`
  const stage_plan* stages;                         ///< [S], with the requirements
  const program_view *programs, *forward_programs;  ///< [W]
  const layer_cost* costs;
  int cost_count;
  const double* shares;  ///< [S]
};

/// The plan of a training with these options. They equal the options of the constants except for the arrays of the
/// optimizer, which determine only the sizes of arenas.
step_plan plan_from(const plan_constants& constants, const network& net, const plan_options& options);

}  // namespace gpipe::detail

#if !GPIPE_COMPILED
#include <gpipe/plan/constant_plan-inl.hpp>
#endif
