#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <gpipe/core/error.hpp>
#include <gpipe/core/text/quantity.hpp>
#include <gpipe/model/network.hpp>
#include <gpipe/plan/cost/device_spec.hpp>
#include <gpipe/plan/memory/layout.hpp>
#include <gpipe/plan/memory/memory_kind.hpp>
#include <gpipe/plan/options/options.hpp>
#include <gpipe/plan/options/plan_options.hpp>
#include <gpipe/plan/stages/stage_view.hpp>
#include <gpipe/plan/step_plan.hpp>

// The parts that a training adds to the arrays of a plan, whether the compiler made them or the program.

namespace gpipe::detail {

/// The links of each stage, the ties of parameters, and the slots that no schedule decides.
GPIPE_COLD inline void connect_stages(const network& net, step_plan& p) {
  for (int l = 0; l < net.layer_count; ++l)
    for (int i = 0; i < net.layers[l].tied; ++i) {
      const tied_parameter& t = net.tied[net.layers[l].first_tied + i];
      p.ties.push_back({t.owner, {l, t.index}, net.owner_offset(l, t.index)});
    }
  p.incoming.resize(static_cast<std::size_t>(p.stages()));
  p.outgoing.resize(static_cast<std::size_t>(p.stages()));
  for (std::size_t k = 0; k < p.links.size(); ++k) {
    p.outgoing[static_cast<std::size_t>(p.links[k].from)].push_back(static_cast<int>(k));
    p.incoming[static_cast<std::size_t>(p.links[k].to)].push_back(static_cast<int>(k));
  }
  for (int m = 0; m < p.all_micro_batches(); ++m) p.each.push_back(m);
  for (int m = 0; m < p.micro_batches(); ++m) p.leaving.push_back(m % 2);
}

/// The limit that a stage obeys: "memory_limit is 1000 bytes", or "devices[1].memory_limit is 1000 bytes (L4)".
GPIPE_COLD inline std::string limit_in_words(const plan_options& o, int stage) {
  const auto size = [](std::int64_t bytes) { return chosen_size(static_cast<std::uint64_t>(bytes)); };
  const std::int64_t limit = o.limit_of(stage);
  if (limit == o.memory_limit) return "memory_limit is " + size(limit);
  const device_spec& of = o.device_of(stage);
  const std::string name = o.device_count > 0 ? "devices[" + std::to_string(stage) + "]" : "device";
  const int sharing = o.stages_beside(stage);
  return name + ".memory_limit is " + size(of.memory_limit) + " (" + of.name + ")" +
         (sharing > 1 ? ", for " + several(sharing, "stage") : "");
}

GPIPE_COLD inline void require_memory(const plan_options& o, int stage, const stage_memory& memory) {
  if (memory.total() > o.limit_of(stage))
    throw_error({limit_in_words(o, stage), ", and the stage needs ", memory.total(), " bytes"},
                {"give it fewer layers, or leave the cut to the partition",
                 o.group_gradients > 1 ? ", or choose group_gradients 0" : ""},
                location{.stage = stage});
}

/// The arena of every stage, from its requirements.
GPIPE_COLD inline void lay_out_arenas(const network& net, step_plan& p) {
  for (int s = 0; s < p.stages(); ++s) {
    const stage_view stage(net, p.cut(), s);
    stage_plan& made = p.stage_plans[static_cast<std::size_t>(s)];
    if (!made.counted) made.memory = memory_of(stage, made.requirements);
    made.counted = true;
    require_memory(p.options, s, made.memory);
    std::vector<memory_block>& blocks = p.blocks.emplace_back();
    lay_out(stage, made.requirements, made.memory, [&blocks](const memory_block& b) { blocks.push_back(b); });
  }
}

}  // namespace gpipe::detail
