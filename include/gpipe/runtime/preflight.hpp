#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <type_traits>

#include <gpipe/device/contract/device_concept.hpp>
#include <gpipe/runtime/processes/agreement.hpp>
#include <gpipe/runtime/processes/rank_layout.hpp>
#include <gpipe/runtime/step/run_options.hpp>
#include <gpipe/runtime/step/step_result.hpp>

namespace gpipe::detail {

/// For so many workers of this process. Throws `error` if the deadline is none.
GPIPE_COLD inline wait_limits wait_limits_of(int workers, std::chrono::nanoseconds deadline) {
  if (deadline <= deadline.zero())
    throw_error({"a deadline of ", duration_text(deadline), " is over before a step begins"},
           {"choose one longer than a micro-batch takes"});
  wait_limits p = wait_limits::of(workers);
  p.deadline = deadline;
  return p;
}

/// Says how many processes would do.
[[noreturn]] GPIPE_COLD inline void throw_rank_count(const runtime_plan& plan, int ranks) {
  const int R = plan.replicas(), each = ranks / R, most = plan.options.max_workers();
  const int fewer = R * (std::min)(each, most), more = R * (each + 1);
  const bool divides = ranks % R == 0 && each <= most;  // another number of workers was asked for
  const std::string right = divides                            ? std::to_string(R * plan.workers())
                            : each >= most                     ? std::to_string(fewer)
                            : each == 0                        ? std::to_string(more)
                                                               : concat({fewer, " or ", more});
  throw_error({"the job has ", ranks, ranks == 1 ? " process" : " processes", ", and the plan ",
          several(R * plan.workers(), "worker"), R > 1 ? concat({" in ", R, " replicas"}) : std::string()},
         {"start ", right, " processes", divides ? concat({", or choose ", several(each, "worker")}) : std::string(),
          divides && R > 1 ? " of each replica" : ""});
}

/// The processes of a job are as many as the plan has workers, and have the same plan. `carried`: the job carries what
/// the device's memory holds. `rule`: what the optimizer makes of a number.
GPIPE_COLD inline void agree(const network& net, const runtime_plan& plan, double rule, const run_options& options,
                             bool carried) {
  process_group& job = *options.job;
  job.expect(options.deadline);
  std::vector<agreed_value> traits = agreed_values_of(net, plan);
  traits.push_back(agreed_value::real("the optimizer: what it makes of a number", rule));
  traits.push_back(agreed_value::number("the seed", static_cast<std::int64_t>(options.seed)));
  traits.push_back(agreed_value::number("the deadline in ns", options.deadline.count()));
  traits.push_back(agreed_value::number("the events to trace", static_cast<std::int64_t>(options.trace_events)));
  traits.push_back(agreed_value::number("the calls to digest", static_cast<std::int64_t>(options.digest_calls)));
  traits.push_back(agreed_value::number("whether slots are timed", options.slot_times));
  job.agree(collective_kind::make, traits);
  if (job.ranks() != plan.replicas() * plan.workers()) throw_rank_count(plan, job.ranks());
  if (options.link_bytes_per_second != 0)
    throw_error({"links between processes are not emulated"}, {"emulate them between threads"});
  if (!carried)
    throw_error({"processes carry the memory of processors, and the stages are on another device"},
           {"train in one process, which may have several such devices; GPUs of several are reached by nccl::job"});
  if (!plan.options.separate_memory)
    throw_error({"the plan's workers share memory, and processes do not"}, {"make it with .apart = true"});
}

GPIPE_COLD inline void require_graph(const runtime_plan& plan, const run_options& options, bool has_graphs) {
  if (!has_graphs)
    throw_error({"the device has no graphs"}, {"train without one, or on a device that writes down what it does"});
  if (const int all = plan.workers() * plan.replicas(); all != 1)
    throw_error({"a graph is of one worker, and the plan has ", all},
           {"choose .workers = 1: it has all the stages, on one device"});
  if (options.before || options.slot_times)
    throw_error({"a step that is launched from a graph calls nobody before an instruction, and times no slot"},
           {"train without a graph"});
}

/// `left` bytes are enough for the stages that are here. A machine that has promised too much ends programs without a
/// word.
GPIPE_COLD inline void require_memory(const runtime_plan& plan, const rank_layout& here, std::int64_t left) {
  for (int r = 0; r < plan.replicas(); ++r)
    for (int s = 0; s < plan.stages(); ++s) {
      if (!here.has_stage(r, s)) continue;
      const std::int64_t needed = plan.memory[static_cast<std::size_t>(s)].total();
      if (needed > left)
        throw_error({"the stage needs ", needed, " bytes, and the machine has ", left, " left"},
               {"recompute more, make micro-batches smaller, or use a machine with more memory"}, {.stage = s});
      left -= needed;
    }
}

/// Whether the job carries what the device's memory holds.
template <class Device>
bool carried(const process_group& job) {
  return std::is_same_v<typename Device::marker, unmarked> ||
         (queueing_context<typename Device::context> && job.reaches_devices());
}

/// Refuses what cannot run, before anything is made that depends on it.
template <class Device>
GPIPE_COLD void preflight(const network& net, const runtime_plan& plan, double rule, const run_options& options,
                      const rank_layout& here) {
  if (options.job != nullptr) agree(net, plan, rule, options, carried<Device>(*options.job));
  if (options.graph) require_graph(plan, options, graph_device<Device>);
  require_memory(plan, here, Device::memory_left());
  if (const int slot = net.loss_slot(); slot >= 0 && net.row_of(slot).partial_elements() > max_metrics)
    throw_error({"the loss tells ", net.row_of(slot).partial_elements(), " numbers"},
           {"an outcome tells at most ", max_metrics},
           {.layer = std::string(net.row_of(slot).name), .slot = slot});
}

}  // namespace gpipe::detail
