#pragma once

#include <string>

#include <gpipe/core/config.hpp>
#include <gpipe/record/trace.hpp>
#include <gpipe/runtime/preflight.hpp>

namespace gpipe::detail {

// change: a training option; its check
GPIPE_INLINE GPIPE_COLD void preflight(const device_functions& device, const network& net, const step_plan& plan,
                                       double rule, const training_options& options, const rank_layout& ranks) {
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
