#pragma once

#include <cstdint>

#include <gpipe/layer/contract/panels.hpp>
#include <gpipe/model/graph.hpp>
#include <gpipe/plan/memory/derive_requirements.hpp>
#include <gpipe/plan/options/options.hpp>
#include <gpipe/plan/options/plan_options.hpp>
#include <gpipe/plan/stages/stage_view.hpp>

namespace gpipe {

namespace detail {

/// The number of micro-batches whose parameter gradients a stage computes together: the option's, or as many as pay
/// off. They pay off if a gradient is larger than the nearest cache and a micro-batch has few rows for it: then a
/// product needs longer to read and write the gradient than to multiply.
///
///     rows of a sample = operations of the parameter part / 2 / parameters
GPIPE_COLD constexpr int group_size(const network& net, const plan_options& o) {
  constexpr std::size_t nearest_cache = 48 * 1024;
  constexpr std::int64_t enough_rows = 256;
  if (!o.may_group_gradients()) return 1;
  int group = o.group_gradients;
  if (group == 0) {
    std::int64_t operations = 0, parameters = 0;
    for (int l = 0; l < net.layer_count; ++l) {
      const layer_type& r = net.type_of(l);
      if (r.parameter_bytes() <= nearest_cache) continue;
      operations += r.cost.backward_parameters / 2;
      parameters += static_cast<std::int64_t>(r.parameter_elements());
    }
    group = 1;
    const std::int64_t rows = parameters == 0 ? 0 : (operations + parameters / 2) / parameters * o.micro_batch_size;
    if (rows > 0)
      while (group < max_gradient_group && rows * group < enough_rows) group *= 2;
  }
  return group < o.micro_batches ? group : o.micro_batches;
}

}  // namespace detail

/// The same for a cut. With a memory limit and group_gradients 0 the number is halved until every stage has memory for
/// it. The cut is chosen before, for groups of one, so groups never make it worse. Recompute as needed recomputes
/// nothing if the stages have memory for the groups and for all working sets. `plan` has an element for each stage.
template <scheduler Schedule>
GPIPE_COLD constexpr int choose_gradient_group(const network& net, plan_options o, const Schedule& schedule,
                                               const cut& stages, stage_plan* plan) {
  const bool open = o.group_gradients == 0 && o.limits_memory();
  if (o.recompute == recompute_mode::as_needed) o.recompute = recompute_mode::never;
  const auto fit = [&] {
    for (int s = 0; s < o.stages; ++s) {
      const stage_view stage(net, stages, s);
      if (plan[s].count(stage, requirements_of(schedule, o, stage)) > o.limit_of(s)) return false;
    }
    return true;
  };
  for (o.group_gradients = detail::group_size(net, o); open && o.group_gradients > 1 && !fit();) o.group_gradients /= 2;
  return o.group_gradients;
}

}  // namespace gpipe
