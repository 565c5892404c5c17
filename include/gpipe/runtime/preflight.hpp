#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>

#include <gpipe/core/config.hpp>
#include <gpipe/core/numbers/double_bits.hpp>
#include <gpipe/core/text/quantity.hpp>
#include <gpipe/device/contract/device_functions.hpp>
#include <gpipe/device/host/arena.hpp>
#include <gpipe/plan/options/plan_options.hpp>
#include <gpipe/plan/step_plan.hpp>
#include <gpipe/record/digest.hpp>
#include <gpipe/record/trace.hpp>
#include <gpipe/runtime/processes/other_processes.hpp>
#include <gpipe/runtime/processes/rank_layout.hpp>
#include <gpipe/runtime/step/step_context.hpp>
#include <gpipe/runtime/step/training_options.hpp>
#include <gpipe/transport/in_process/core_placement.hpp>

namespace gpipe::detail {

/// The limits for this number of workers in the process. Throws `error` if the deadline is not positive.
GPIPE_COLD inline wait_limits wait_limits_of(int workers, std::chrono::nanoseconds deadline) {
  if (deadline <= deadline.zero())
    throw_error({"deadline is ", duration_text(deadline)}, {"choose a time longer than that of a micro-batch"});
  wait_limits limits = wait_limits::of(workers, cores::allowed());
  limits.deadline = deadline;
  return limits;
}

// change: gradient clipping
GPIPE_COLD inline void require_max_norm(double max_norm) {
  if (!(max_norm >= 0) || is_nan(max_norm))
    throw_error({"max_grad_norm is ", significant(max_norm, 6)}, {"choose 0 for no limit, or more"});
}

// change: a training option; if graphs cannot have it
GPIPE_COLD inline void require_graph(const step_plan& plan, const training_options& options, bool has_graphs) {
  if (!has_graphs)
    throw_error({"graph is true, but the device has no graphs"}, {"choose .graph = false, or a device with graphs"});
  if (options.job != nullptr && options.job->ranks() > 1)
    throw_error({"graph is true, but the job has ", options.job->ranks(), " processes"},
                {"choose .graph = false, or run all workers in one process"});
  if (plan.replicas() > 1)
    throw_error({"graph is true, but the plan has ", plan.replicas(), " replicas"},
                {"choose .graph = false, or .replicas = 1"});
  if (options.before || options.layer_times)
    throw_error({"graph is true, but a graph calls no .before and has no .layer_times"}, {"choose .graph = false"});
}

/// Checks that `left` bytes are enough for the stages of this process. A machine that runs out of memory later ends the
/// program without an error.
GPIPE_COLD inline void require_memory(const step_plan& plan, const rank_layout& ranks, std::int64_t left) {
  std::int64_t needed = 0;
  int stages = 0, first = -1;  // first: the first stage that does not fit
  for (int r = 0; r < plan.replicas(); ++r)
    for (int s = 0; s < plan.stages(); ++s) {
      if (!ranks.has_stage(r, s)) continue;
      ++stages;
      needed += plan.memory(s).total();
      if (needed > left && first < 0) first = s;
    }
  if (first < 0) return;
  throw_error(
      {"the memory of ", several(stages, "stage"), " is ", needed, " bytes, but the machine has ", left, " left"},
      {"recompute more, make micro-batches smaller", plan.replicas() > 1 ? ", use fewer replicas" : "",
       ", or use a machine with more memory"},
      {.stage = first});
}

/// Checks that `left` bytes are enough for `count` records of this size each.
GPIPE_COLD inline void require_records(const char* option, std::size_t count, std::size_t bytes, std::int64_t left) {
  const std::size_t fit = static_cast<std::size_t>((std::max)(left, std::int64_t{0})) / bytes;
  if (count > fit)
    throw_error({option, " is ", count, ", of ", bytes, " bytes each, but the machine has ", left, " bytes left"},
                {"choose at most ", fit});
}

/// Checks that the plan has the memory that the optimizer and the average of the weights need.
GPIPE_COLD inline void require_optimizer(const plan_options& plan, int moments, const tensor_rule_memory* rule,
                                         const training_options& options) {
  if (plan.optimizer_moments < moments ||
      (rule != nullptr && (plan.tensor_rule == nullptr || plan.tensor_rule->arrays != rule->arrays)))
    throw_error({"the plan has no memory for the optimizer's arrays"},
                {"set .optimizer_moments and .tensor_rule, or name optimizer<type> in the plan"});
  if (!is_finite(options.average_weights) || !(options.average_weights >= 0 && options.average_weights < 1))
    throw_error({"average_weights is ", significant(options.average_weights, 6)},
                {"choose a decay such as 0.999, or 0 for no average"});
  if (options.average_weights > 0 && !plan.average_weights)
    throw_error({"average_weights is ", significant(options.average_weights, 6),
                 ", but the plan has no memory for the average"},
                {"choose .average_weights = true in the plan"});
}

/// Checks that the gradients of one call are kept for the next.
GPIPE_COLD inline void require_kept_gradients(const step_plan& plan) {
  for (int s = 0; s < plan.stages(); ++s)
    if (plan.requirements(s).gradients_leave)
      throw_error({"shard is gradients, and each replica keeps those of its share alone: no call can add to them"},
                  {"choose .shard = shard::optimizer_state, or one step with more micro-batches"}, {.stage = s});
}

/// Whether the job transfers the device's memory.
inline bool carries_memory_of(const device_functions& device, const process_group& job) {
  return device.is_synchronous() || (device.queue != nullptr && job.reaches_devices());
}

// change: a training option; the check
/// Throws if the plan cannot run with these options, before anything is allocated.
GPIPE_COLD inline void preflight(const device_functions& device, const network& net, const step_plan& plan, double rule,
                                 const training_options& options, const rank_layout& ranks) {
  if (options.job != nullptr)
    options.job.set_up().agree(net, plan, rule, options, carries_memory_of(device, *options.job));
  require_max_norm(options.max_grad_norm);
  if (options.graph) require_graph(plan, options, device.has_graphs());
  require_memory(plan, ranks, device.memory_left());
  const std::int64_t left = host::memory_left();
  require_records("trace_events", options.trace_events,
                  sizeof(trace_event) * index(plan.replicas()) * index(plan.workers()), left);
  require_records("digest_calls", options.digest_calls, digest::call_bytes(net.layer_count, plan.all_micro_batches()),
                  left);
  for (const loss_location& loss : locations_of_losses(net, 1))
    if (loss.layer->partial_elements() > max_metrics)
      throw_error({"the partials of the loss have ", loss.layer->partial_elements(), " elements"},
                  {"choose at most ", max_metrics},
                  {.layer = std::string(loss.layer->name), .layer_index = loss.layer_index});
}

}  // namespace gpipe::detail
