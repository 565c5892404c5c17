#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <gpipe/core/build_mode.hpp>
#include <gpipe/model/network.hpp>
#include <gpipe/plan/cost/device_spec.hpp>
#include <gpipe/plan/options/plan_options.hpp>
#include <gpipe/plan/step_plan.hpp>
#include <gpipe/tools/best/plan_candidate.hpp>
#include <gpipe/tools/best/plan_space.hpp>

namespace gpipe {

/// The best plan of a space that a search has found, and how far it may be from the best one. Times are in picoseconds.
struct best_plan {
  plan_space space;
  plan_options options;     ///< of the winner: `make_plan(net, options, cut)` makes the plan
  std::vector<int> cut;     ///< the first layers of its stages but the first
  std::int64_t step = 0;    ///< its predicted step: `step_time` of the plan, and `update`
  std::int64_t update = 0;  ///< of the step: the sums of replicas and the update, on the worker where they take longest
  std::int64_t min = 0;     ///< no plan of the space has a shorter step
  plan_candidate winner;
  std::vector<plan_candidate> next;  ///< at most five more, by step

  // The plans of the space, but for cut and recompute, of which each has its best.
  std::int64_t plans = 0;       ///< all
  std::int64_t simulated = 0;   ///< those whose step was simulated
  std::int64_t too_large = 0;   ///< those that do not fit the memory, or seem so: then their bound counts
  std::int64_t open = 0;        ///< those whose bound is below the winner's step
  std::int64_t unsearched = 0;  ///< of these, those that were left when the effort was spent

  /// The step is at most this share longer than that of the best plan.
  double gap() const {
    if (step == min) return 0;
    return min == 0 ? std::numeric_limits<double>::infinity()
                    : static_cast<double>(step - min) / static_cast<double>(min);
  }

  std::shared_ptr<const std::vector<device_spec>> devices;  ///< of each stage, if they differ
};

/// Chooses stages, replicas, micro-batches, their size, the schedule with its chunks, the cut and what is recomputed,
/// for the shortest predicted step: a best-first search over all plans of the space (see `plan_candidate`), with lower
/// bounds of their steps. Transfers count, and the parameters that each micro-batch reads; so do the sums of replicas
/// and the update.
///
/// `rest`: the other options. Its device or devices, its optimizer and its recompute mode are obeyed. Its memory limit
/// is that of each device here, whose stages share it; the winner's options have it as `device.memory_limit` if a
/// worker has several stages. The search is the same in every run. It ends when no plan is
/// left that could be better, or after `effort` times the work of about a second; then `open` plans are left.
///
///     const best_plan best = find_best(network_of<net>, {.devices = 8, .batch = 512}, {.memory_limit = 16_GiB});
///     std::cout << describe(best);
///     trainer<net, adamw> training{best.options, adamw{}, {.cut = best.cut}};
best_plan find_best(const network& net, const plan_space& space, const plan_options& rest = {}, double effort = 1);

/// The plan of the best, made: `make_best_plan(network_of<net>, plan_space{.devices = 8, .batch = 512}, rest)`.
step_plan make_best_plan(const network& net, const plan_space& space, const plan_options& rest = {}, double effort = 1);

/// The winner, the next ones, and the certificate in words.
std::string describe(const best_plan& found);

}  // namespace gpipe

#if !GPIPE_COMPILED
#include <gpipe/tools/best/find_best-inl.hpp>
#endif
