#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <gpipe/core/descriptions/plan_choices.hpp>
#include <gpipe/core/error.hpp>
#include <gpipe/core/text/quantity.hpp>
#include <gpipe/core/text/quoted.hpp>
#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/model/in_bf16.hpp>
#include <gpipe/model/network.hpp>
#include <gpipe/model/path.hpp>
#include <gpipe/plan/cost/device_spec.hpp>
#include <gpipe/plan/memory/layout.hpp>
#include <gpipe/plan/memory/memory_kind.hpp>
#include <gpipe/plan/memory/requirements.hpp>
#include <gpipe/plan/options/layer_pattern.hpp>
#include <gpipe/plan/options/options.hpp>
#include <gpipe/plan/options/plan_options.hpp>
#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/plan/stages/stage_view.hpp>
#include <gpipe/plan/step_plan.hpp>

// The checks of options that depend on the network, and the parts that a training adds to the arrays of a plan, whether
// the compiler or the program made them.

namespace gpipe::detail {

// assumes: half precision is bf16
GPIPE_COLD inline void require_precision(const network& net, const plan_options& o) {
  if (o.precision == precision::bf16 && precision_of(net) != precision::bf16)
    throw_error({"precision is bf16, and the network is in float32"},
                {"plan the network of in_bf16<model>, or make the trainer one of both_precisions<model>"});
}

GPIPE_COLD inline void require_layers(const network& net, const layer_patterns& patterns) {
  const zeroed_array<bool> marked(net.layer_count);
  const pattern_mistakes found = mark_layers(net, patterns, marked.data());
  if (found.unused != nullptr)
    throw_error({"recompute_layers has the pattern ", detail::quoted(found.unused), ", and no layer is there"},
                {"write the path of a layer or a group, with * for any part, such as \"h.*.mlp\", or a type, such as "
                 "\"layer_norm\"; the first layer's path is ",
                 detail::quoted(path_of(net, 0))});
  if (found.refused >= 0)
    throw_error({"recompute_layers has the pattern ", detail::quoted(found.refusing), ", which names ",
                 detail::quoted(path_of(net, found.refused)), ", ",
                 net.type_of(found.refused).loss >= 0 ? "a loss" : "the last layer"},
                {"leave this layer out: its backward follows directly, so nothing is saved"});
}

GPIPE_COLD inline std::vector<std::vector<instruction>> programs_from(const program_view* views, int workers) {
  std::vector<std::vector<instruction>> programs;
  for (int w = 0; w < workers; ++w) programs.emplace_back(views[w].lines, views[w].lines + views[w].length);
  return programs;
}

/// The links of each stage, the ties of parameters, and the slots that do not depend on a schedule.
GPIPE_COLD inline void connect_stages(const network& net, step_plan& plan) {
  for (int l = 0; l < net.layer_count; ++l)
    for (int i = 0; i < net.layers[l].tied; ++i) {
      const tied_parameter& t = net.tied[net.layers[l].first_tied + i];
      plan.ties.push_back({t.owner, {l, t.index}, net.owner_offset(l, t.index)});
    }
  plan.incoming.resize(static_cast<std::size_t>(plan.stages()));
  plan.outgoing.resize(static_cast<std::size_t>(plan.stages()));
  for (std::size_t k = 0; k < plan.links.size(); ++k) {
    plan.outgoing[static_cast<std::size_t>(plan.links[k].source)].push_back(static_cast<int>(k));
    plan.incoming[static_cast<std::size_t>(plan.links[k].target)].push_back(static_cast<int>(k));
  }
  for (int m = 0; m < plan.all_micro_batches(); ++m) plan.own_slots.push_back(m);
  for (int m = 0; m < plan.micro_batches(); ++m) plan.leaving.push_back(m % 2);
}

/// The processes of workers, if the devices of stages name them.
GPIPE_COLD inline void place_workers(step_plan& plan) {
  if (plan.options.named_processes() == 0) return;
  plan.processes_of_workers.resize(static_cast<std::size_t>(plan.workers()));
  for (int s = 0; s < plan.stages(); ++s)
    plan.processes_of_workers[static_cast<std::size_t>(plan.worker_of(s))] = plan.options.devices[s].process;
}

/// The option with the limit of a stage's device.
GPIPE_COLD inline std::string device_limit_name(const plan_options& o, int stage) {
  return o.device_count > 0 ? concat({"devices[", stage, "].memory_limit"}) : "device.memory_limit";
}
/// The option with the limit that a stage obeys.
GPIPE_COLD inline std::string limit_name(const plan_options& o, int stage) {
  return o.limit_of(stage) == o.memory_limit ? "memory_limit" : device_limit_name(o, stage);
}
/// The same with its value: "memory_limit is 1000 bytes", or "devices[1].memory_limit is 1000 bytes (L4)".
GPIPE_COLD inline std::string limit_in_words(const plan_options& o, int stage) {
  const auto size = [](std::int64_t bytes) { return chosen_size(static_cast<std::uint64_t>(bytes)); };
  const std::string text = limit_name(o, stage) + " is ";
  if (o.limit_of(stage) == o.memory_limit) return text + size(o.memory_limit);
  const device_spec& device = o.device_of(stage);
  const int sharing = o.stages_beside(stage);
  return text + size(device.memory_limit) + " (" + device.name + ")" +
         (sharing > 1 ? ", for " + several(sharing, "stage") : "");
}

/// Other options with which a stage may need less memory: ", or recompute as-needed, which may need fewer".
GPIPE_COLD inline std::string smaller_options(const plan_options& o) {
  const bool never = o.recompute == recompute_mode::never;
  const bool lists = !o.recompute_layers.empty() && o.chosen_schedule().trains;
  std::string text;
  if (o.group_gradients > 1) text = lists ? "choose group_gradients 0 and no recompute_layers" : "group_gradients 0";
  else if (lists) text = never ? "choose recompute as-needed and no recompute_layers" : "leave out recompute_layers";
  else if (never) text = "recompute as-needed";
  return text.empty() ? text : ", or " + text + ", which may need fewer";
}

GPIPE_COLD inline void require_memory(const plan_options& o, int stage, const stage_memory& memory) {
  if (memory.total() > o.limit_of(stage))
    throw_error({limit_in_words(o, stage), ", and the stage needs ", memory.total(), " bytes"},
                {"give it fewer layers, or leave the cut to the partition", smaller_options(o)},
                location{.stage = stage});
}

/// A limit that is too small, and the bytes that it must allow.
struct small_limit {
  std::string option;
  std::int64_t bytes;
};

/// The limits that stages of these bytes exceed: first the one that `stage` obeys.
GPIPE_COLD inline std::vector<small_limit> small_limits(const plan_options& o, int stage, const std::int64_t* needed) {
  std::vector<small_limit> found{{limit_name(o, stage), 0}};
  const auto add = [&found](const std::string& option, std::int64_t bytes) {
    for (small_limit& limit : found)
      if (limit.option == option) {
        limit.bytes = (std::max)(limit.bytes, bytes);
        return;
      }
    found.push_back({option, bytes});
  };
  for (int s = 0; s < o.stages; ++s) {
    const int sharing = o.stages_beside(s);
    if (needed[s] > o.device_of(s).memory_limit / sharing) add(device_limit_name(o, s), needed[s] * sharing);
    if (needed[s] > o.memory_limit) add("memory_limit", needed[s]);
  }
  return found;
}

/// No cut obeys the limits. In the cut that exceeds them least, the stages need these bytes, and `stage` exceeds its
/// limit by most.
[[noreturn]] GPIPE_COLD inline void throw_no_cut(const plan_options& o, int stage, const std::int64_t* needed) {
  constexpr std::size_t max_named = 4;
  const std::vector<small_limit> limits = small_limits(o, stage, needed);
  const std::string bytes = concat({limits[0].bytes, " bytes"});
  std::string wrong = concat({limit_in_words(o, stage), ": no cut into ", several(o.stages, "stage"), " fits"});
  if (o.limit_of(stage) != o.memory_limit)
    wrong += concat(
        {", and in the smallest ", o.stages_beside(stage) > 1 ? "these stages need " : "this stage needs ", bytes});
  std::string other_limits;
  const std::size_t count = limits.size();
  for (std::size_t i = 1; count <= max_named && i < count; ++i)
    other_limits += concat({i + 1 == count ? ", and " : ", ", limits[i].bytes, " bytes for ", limits[i].option});
  if (count > max_named)
    other_limits = concat({", and ", needed[stage] - o.limit_of(stage), " bytes more a stage for ",
                           static_cast<std::int64_t>(count - 1), " other limits"});
  throw_error({wrong}, {"choose at least ", bytes, other_limits, smaller_options(o)}, location{.stage = stage});
}

/// The arena of every stage, from its requirements.
GPIPE_COLD inline void lay_out_arenas(const network& net, step_plan& plan) {
  for (int s = 0; s < plan.stages(); ++s) {
    const stage_view stage(net, plan.cut(), s);
    stage_plan& made = plan.stage_plans[static_cast<std::size_t>(s)];
    if (!made.counted) made.memory = memory_of(stage, made.requirements);
    made.counted = true;
    require_memory(plan.options, s, made.memory);
    std::vector<memory_block>& blocks = plan.blocks.emplace_back();
    lay_out(stage, made.requirements, made.memory, [&blocks](const memory_block& b) { blocks.push_back(b); });
  }
}

}  // namespace gpipe::detail
