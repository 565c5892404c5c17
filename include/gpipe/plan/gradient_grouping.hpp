#pragma once

#include <gpipe/layer/contract/row_parts.hpp>
#include <gpipe/model/graph.hpp>
#include <gpipe/plan/memory/derive_requirements.hpp>
#include <gpipe/plan/options/options.hpp>

namespace gpipe {

/// Of how many micro-batches a stage makes the parameter gradients together: what the options ask for, or as many as
/// pay. They pay where a gradient is larger than the nearest cache and a micro-batch has few rows for it: then a
/// product takes longer to read and write the gradient than to multiply.
///
///     rows of a sample = operations of the parameter part / 2 / parameters
GPIPE_COLD constexpr int coalesced(const network& net, const plan_options& o) {
  constexpr std::size_t nearest_cache = 48 * 1024;
  constexpr std::int64_t enough_rows = 256;
  if (!o.may_coalesce()) return 1;
  int together = o.coalesce;
  if (together == 0) {
    std::int64_t operations = 0, parameters = 0;
    for (int l = 0; l < net.slot_count; ++l) {
      const row& r = net.row_of(l);
      if (r.parameter_bytes() <= nearest_cache) continue;
      operations += r.cost.backward_parameters / 2;
      parameters += static_cast<std::int64_t>(r.parameter_elements());
    }
    together = 1;
    const std::int64_t rows = parameters == 0 ? 0 : (operations + parameters / 2) / parameters * o.micro_batch_size;
    if (rows > 0)
      while (together < max_coalesced && rows * together < enough_rows) together *= 2;
  }
  return together < o.micro_batches ? together : o.micro_batches;
}

/// The same of a cut: where memory is limited and the options leave it open, as many of these, halved and halved again,
/// as every stage has room for. A cut is chosen with none waiting, so that none is worse for it; and the bits are those
/// of any number. Recompute as needed is none where there is room for them beside all that backward reads again.
template <scheduler Schedule>
GPIPE_COLD constexpr int coalesced(const network& net, plan_options o, const Schedule& schedule, const cut& stages) {
  const bool open = o.coalesce == 0 && o.memory_limit != no_memory_limit;
  if (o.recompute == recompute_mode::as_needed) o.recompute = recompute_mode::never;
  const auto fit = [&] {
    for (int s = 0; s < o.stages; ++s) {
      const stage_view stage(net, stages, s);
      if (memory_of(stage, requirements_of(schedule, o, stage)).total() > o.memory_limit) return false;
    }
    return true;
  };
  for (o.coalesce = coalesced(net, o); open && o.coalesce > 1 && !fit();) o.coalesce /= 2;
  return o.coalesce;
}

}  // namespace gpipe
