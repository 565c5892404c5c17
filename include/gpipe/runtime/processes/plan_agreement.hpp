#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include <gpipe/model/network.hpp>
#include <gpipe/plan/options/options.hpp>
#include <gpipe/plan/options/plan_options.hpp>
#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/plan/step_plan.hpp>
#include <gpipe/runtime/processes/agreed_hash.hpp>
#include <gpipe/transport/contract/build_text.hpp>
#include <gpipe/transport/contract/process_group.hpp>

namespace gpipe::detail {

// assumes: several lengths in one process
/// The values of a plan that must be the same in all processes of a job.
GPIPE_COLD inline std::vector<agreed_value> agreed_values_of(const network& net, const step_plan& plan) {
  agreed_hash build, model, cut, schedule, places, memory;
  // assumes: one build in all processes
  build(std::string_view(build_text()));
  model(net.layer_count, net.value_count, net.field_count);
  for (int l = 0; l < net.layer_count; ++l) {
    const layer_type& type = net.type_of(l);
    model(std::string_view(type.name), type.type, type.parameter_bytes(), type.state_bytes(), net.layers[l].tied);
    for (int p = 0; p < type.parameter_count; ++p)
      model(net.owner(l, p).layer_index, net.owner(l, p).index, net.owner_offset(l, p));
    for (int i = 0; i < type.inputs; ++i) model(net.reads_value(l, i));
  }
  for (int v = 0; v < net.value_count; ++v) model(net.values[v].part.size, net.values[v].part.type);
  const plan_options options = plan.resolved_options();
  cut(plan.first);
  cut(plan.recomputed_before);
  for (int s = 0; s < plan.stages(); ++s) schedule(plan.worker_of(s));
  places(plan.processes_of_workers);
  for (const std::vector<instruction>& program : plan.programs)
    for (const instruction& action : program) schedule(action.kind, action.stage, action.micro_batch);
  for (const link_slots& assignment : plan.slots_of_links) schedule(assignment.stash, assignment.returned);
  for (const stage_plan& stage : plan.stage_plans) memory(stage.memory.total());
  std::vector<agreed_value> values{{"the build", build.value()}};
  for (const option_description& option : plan_option_list)
    if (option.across_processes == agreed::yes)
      values.push_back({option.name, static_cast<std::uint64_t>(option.get(options)), option.text});
  values.insert(values.end(), {{"the model", model.value()},
                               {"the cut", cut.value()},
                               {"the order of the schedule", schedule.value()},
                               {"the processes of devices", places.value()},
                               {"the memory plan", memory.value()}});
  return values;
}

}  // namespace gpipe::detail
