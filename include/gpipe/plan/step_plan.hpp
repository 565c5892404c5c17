#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <gpipe/model/network.hpp>
#include <gpipe/plan/cost/device_spec.hpp>
#include <gpipe/plan/cost/layer_cost.hpp>
#include <gpipe/plan/memory/memory_kind.hpp>
#include <gpipe/plan/memory/requirements.hpp>
#include <gpipe/plan/options/plan_options.hpp>
#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/plan/stages/cut.hpp>

namespace gpipe {

class table_schedule;

namespace detail {

/// The memory slots of the micro-batches whose values go over a link.
struct link_slots {
  std::vector<int> stash;     ///< of activations, in the stage that receives them
  std::vector<int> returned;  ///< of their gradients, in the stage that sent the activations
};

/// The slot of memory of each micro-batch in a stage.
struct stage_slots {
  std::vector<int> entering;           ///< of inputs of the model
  std::vector<int> forward, backward;  ///< of the working set: in forward, and in recompute and backward
  std::vector<int> held;               ///< of gradients between backward's two parts
};

/// A parameter of a layer that uses the parameter of an earlier one.
struct tie {
  named_array owner, user;
  std::size_t before = 0;  ///< bytes of the owner before the rows that the user has
};

}  // namespace detail

/// A plan as data, complete for a training: cut, links, programs, the slots of micro-batches, and the memory of
/// every stage. The compiler made it (see `plan`), or the program (see `make_plan`), by the same steps.
struct step_plan {
  plan_options options;
  const char* schedule = "";  ///< its name
  bool trains = true;         ///< else it runs forward only
  std::vector<int> workers_of_stages;
  std::vector<int> processes_of_workers;  ///< of each replica, if devices name processes; else empty
  int group_gradients = 1;                ///< micro-batches whose parameter gradients are computed together
  std::vector<int> first;                 ///< the first layer of each stage, then the number of layers
  std::vector<int> recomputed_before;     ///< of each layer, see `cut`; empty: no stage recomputes layers
  std::vector<stage_link> links;
  std::vector<std::vector<int>> incoming, outgoing;  ///< links of each stage
  std::vector<detail::link_slots> slots_of_links;
  /// A forward-only pass uses the same slots, and frees them after forward.
  std::vector<detail::stage_slots> slots_of_stages;
  std::vector<int> own_slots;     ///< 0 ... R M - 1: the slots of values that every micro-batch of all replicas has
  std::vector<int> leaving;       ///< the slots of each micro-batch for values sent to workers that share no memory
  std::vector<detail::tie> ties;  ///< in model order of their users
  /// The program of each worker in a pass that trains, and in one that only runs forward.
  std::vector<std::vector<instruction>> programs, forward_programs;
  std::vector<stage_plan> stage_plans;
  std::vector<std::vector<detail::memory_block>> blocks;  ///< of each stage's arena
  std::vector<layer_cost> costs_of_layers;                ///< [kind][layer], per micro-batch, in picoseconds
  std::vector<double> shares;                             ///< of each stage, of the predicted time
  /// A table that was searched for the stages, to which the options point, and the maximum share by which it is longer
  /// than the best table.
  std::shared_ptr<const table_schedule> table{};
  double table_gap = 0;
  /// The devices to which the options point; null: there are none, or the compiler has made the plan.
  std::shared_ptr<const std::vector<device_spec>> devices{};

  stage_costs costs() const { return {costs_of_layers.data(), first.back(), options.device_count > 0}; }
  gpipe::cut cut() const {
    return {first.data(), options.stages, recomputed_before.empty() ? nullptr : recomputed_before.data()};
  }
  /// The options with the numbers that the plan has found for 0.
  plan_options resolved_options() const {
    plan_options resolved = options;
    resolved.workers = workers();
    resolved.group_gradients = group_gradients;
    return resolved;
  }
  int stages() const { return options.stages; }
  /// The numbers on which the memory of a stage depends.
  const memory_requirements& requirements(int stage) const { return of(stage).requirements; }
  /// Bytes of a stage, by kind.
  const stage_memory& memory(int stage) const { return of(stage).memory; }
  int workers() const { return static_cast<int>(programs.size()); }
  int worker_of(int stage) const { return workers_of_stages[static_cast<std::size_t>(stage)]; }
  int micro_batches() const { return options.micro_batches; }  ///< of each replica
  int all_micro_batches() const { return options.all_micro_batches(); }
  int replicas() const { return options.replicas; }
  int max_batch() const { return options.all_micro_batches() * options.micro_batch_size; }
  int min_batch() const { return options.replicas; }  ///< of a step: one for each replica
  /// A stage's share of the predicted time.
  double share(int stage) const { return shares[static_cast<std::size_t>(stage)]; }

 private:
  const stage_plan& of(int stage) const { return stage_plans[static_cast<std::size_t>(stage)]; }
};

namespace detail {

/// Plans a training of `ranks` processes, or of none (0).
using plan_maker = step_plan (*)(const network& net, const plan_options& options, std::span<const int> cut, int ranks);

/// The planner at run time. Only <gpipe/make_plan.hpp> completes it, so that other programs compile no planner.
template <class>
struct planner;

}  // namespace detail

}  // namespace gpipe
