#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/model/network.hpp>
#include <gpipe/plan/cost/device_spec.hpp>
#include <gpipe/plan/options/plan_options.hpp>
#include <gpipe/plan/step_plan.hpp>
#include <gpipe/tools/best/plan_space.hpp>

namespace gpipe {

/// The best plan of a space that a search found, and how far it may be from the optimum. Times are in picoseconds.
struct best_plan {
  plan_space space;
  plan_options options;     ///< the winner's: `make_plan(net, options, cut)` makes the plan
  std::vector<int> cut;     ///< the first layer of each of its stages but the first
  std::int64_t step = 0;    ///< its predicted step: `step_time` of the plan plus `update`
  std::int64_t update = 0;  ///< the sums over replicas and the update, on the worker where they take longest
  std::int64_t min = 0;     ///< no plan of the space has a shorter step
  plan_candidate winner;
  std::vector<plan_candidate> next;  ///< at most five more, by step

  // Numbers of plans. Plans that differ only in cut and recompute count as one, with the best of these.
  std::int64_t plans = 0;       ///< of the space
  std::int64_t simulated = 0;   ///< whose step was simulated
  std::int64_t too_large = 0;   ///< that do not fit the memory, or seem not to: then their bound counts
  std::int64_t open = 0;        ///< whose bound is below the winner's step
  std::int64_t unsearched = 0;  ///< that are open because the effort was spent

  /// The step is at most this share longer than the step of the best plan.
  double gap() const {
    if (step == min) return 0;
    return min == 0 ? std::numeric_limits<double>::infinity()
                    : static_cast<double>(step - min) / static_cast<double>(min);
  }

  std::shared_ptr<const std::vector<device_spec>> devices;  ///< per stage, if they differ
};

/// Chooses stages, replicas, micro-batches, their size, the schedule with its chunks, the cut and the recompute,
/// for the shortest predicted step: a best-first search over all plans of the space (see `plan_candidate`), with lower
/// bounds of their steps. A step includes transfers, reading the parameters for each micro-batch, the sums over
/// replicas and the update.
///
/// `options`: the other options. The search obeys their device or devices, optimizer and recompute mode. Their memory
/// limit is per device here, and the stages of a device share it; the winner's options have it as `device.memory_limit`
/// if a worker has several stages. The search is the same in every run. It ends when no other plan could be better, or
/// after `effort` times the work of about a second; then `open` plans are left.
///
///     const best_plan best = find_best(network_of<net>, {.devices = 8, .batch = 512}, {.memory_limit = 16_GiB});
///     std::cout << describe(best);
///     trainer<net, adamw> training{best.options, adamw{}, {.cut = best.cut}};
best_plan find_best(const network& net, const plan_space& space, const plan_options& options = {}, double effort = 1);

/// Makes the best plan: `make_best_plan(network_of<net>, plan_space{.devices = 8, .batch = 512}, options)`.
step_plan make_best_plan(const network& net, const plan_space& space, const plan_options& options = {},
                         double effort = 1);

/// The winner, the next ones, and the certificate in words.
std::string describe(const best_plan& found);

}  // namespace gpipe

#if !GPIPE_COMPILED
#include <gpipe/tools/best/find_best-inl.hpp>
#endif
