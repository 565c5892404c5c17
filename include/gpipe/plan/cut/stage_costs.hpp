#pragma once

#include <gpipe/plan/cost/layer_cost.hpp>
#include <gpipe/plan/cost/profile.hpp>
#include <gpipe/plan/options/plan_options.hpp>

namespace gpipe {

namespace detail {

/// The number of costs that `fill_costs` writes.
constexpr int cost_count(const network& net, const plan_options& o) {
  return (o.device_count > 0 ? o.stages : 1) * net.layer_count;
}

/// Predicts the costs of every layer by a plan's options, analytic or measured.
GPIPE_COLD constexpr stage_costs fill_costs(const network& net, const plan_options& o, layer_cost* costs) {
  if (o.device_count == 0) layer_costs(net, o.micro_batch_size, o.device, o.profile, costs, o.cost_parameters);
  else
    for (int s = 0; s < o.stages; ++s)
      layer_costs(net, o.micro_batch_size, o.devices[s], o.profile, costs + s * net.layer_count, o.cost_parameters);
  return {costs, net.layer_count, o.device_count > 0};
}

}  // namespace detail

}  // namespace gpipe
