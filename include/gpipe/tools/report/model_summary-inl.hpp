#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <gpipe/core/text/quantity.hpp>
#include <gpipe/model/path.hpp>
#include <gpipe/plan/cut/choose_cut.hpp>
#include <gpipe/plan/schedule/any_schedule.hpp>
#include <gpipe/plan/step_plan.hpp>
#include <gpipe/tools/report/model_summary.hpp>

namespace gpipe {

namespace detail {

/// The tensors on a layer's output: 64, or 3 x 32 x 32 of bf16, or 32 + 32.
GPIPE_COLD GPIPE_INLINE std::string outputs_of(const layer_type& type) {
  std::string text = type.outputs == 0 ? "-" : "";
  for (int o = 0; o < type.outputs; ++o) {
    if (o > 0) text += " + ";
    const shape& extents = type.out_extents[o];
    for (int i = 0; i < extents.rank; ++i) text.append(i > 0 ? " x " : "").append(std::to_string(extents.extents[i]));
    if (type.out[o].type != dtype::float32) text.append(" ").append(name_of(type.out[o].type));
  }
  return text;
}

GPIPE_COLD GPIPE_INLINE std::string summary_of(const network& net, const step_plan* plan) {
  const schedule_choice schedule = plan == nullptr ? schedule_choice{} : plan->options.chosen_schedule();
  std::vector<double> costs;
  double total = 0;
  for (int l = 0; l < net.layer_count; ++l) {
    const work& declared = net.type_of(l).cost;
    double cost = static_cast<double>(declared.forward + declared.backward_input + declared.backward_parameters);
    if (plan != nullptr) {
      const pass_cost predicted = cost_in(schedule, plan->options, plan->costs().of(plan->cut().stage_of(l))[l]);
      cost = static_cast<double>(predicted.forward + predicted.backward);
    }
    costs.push_back(cost);
    total += cost;
  }
  std::vector<std::vector<std::string>> rows{{"path", "layer", "output", "parameters", "share"}};
  if (plan != nullptr) rows[0].emplace_back("stage");
  std::int64_t operations = 0;
  std::size_t state = 0;
  for (int l = 0; l < net.layer_count; ++l) {
    const layer_type& type = net.type_of(l);
    const std::size_t own_elements = net.own_elements(l);
    std::string count = own_elements > 0 ? counted(own_elements) : net.owns(l) ? "-" : "";
    if (!net.owns(l)) count += own_elements > 0 ? " + tied" : "tied";
    rows.push_back({path_of(net, l), std::string(type.name), outputs_of(type), count,
                    percent(costs[static_cast<std::size_t>(l)], total)});
    if (plan != nullptr) rows.back().push_back(std::to_string(plan->cut().stage_of(l)));
    operations += type.cost.forward;
    for (int i = 0; i < type.state_count; ++i) state += type.state[i].extents.size();
  }
  return table(rows) +
         concat({several(net.layer_count, "layer"), plan == nullptr ? "" : " in " + several(plan->stages(), "stage"),
                 ", ", counted(net.parameters()), " parameters (", sized(net.parameters() * bytes_of(net.type)), " of ",
                 name_of(net.type), ")", state == 0 ? "" : ", " + counted(state) + " numbers of state", ", ",
                 counted(static_cast<std::uint64_t>(operations)), " operations forward a sample\n"});
}

}  // namespace detail

GPIPE_COLD GPIPE_INLINE std::string summary(const network& net) { return detail::summary_of(net, nullptr); }

GPIPE_COLD GPIPE_INLINE std::string summary(const network& net, const step_plan& plan) {
  return detail::summary_of(net, &plan);
}

}  // namespace gpipe
