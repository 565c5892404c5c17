#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gpipe/core/descriptions/plan_choices.hpp>
#include <gpipe/core/text/quantity.hpp>
#include <gpipe/core/text/quoted.hpp>
#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/model/path.hpp>
#include <gpipe/plan/cut/step_time.hpp>
#include <gpipe/plan/cut/step_time_bound.hpp>
#include <gpipe/plan/memory/memory_kind.hpp>
#include <gpipe/plan/memory/packing.hpp>
#include <gpipe/plan/options/layer_pattern.hpp>
#include <gpipe/plan/options/options.hpp>
#include <gpipe/plan/options/plan_options.hpp>
#include <gpipe/plan/partition/partition.hpp>
#include <gpipe/plan/schedule/any_schedule.hpp>
#include <gpipe/plan/stages/stage_view.hpp>
#include <gpipe/plan/step_plan.hpp>
#include <gpipe/plan/summary.hpp>
#include <gpipe/plan/timetable/recompute.hpp>
#include <gpipe/plan/timetable/timetable.hpp>

namespace gpipe {

namespace detail {

/// The options that differ from their defaults and are not in the table or its sentence: ", group_gradients 4".
GPIPE_COLD GPIPE_INLINE std::string other_options(plan_options o, int group_gradients) {
  constexpr std::string_view in_sentence[] = {"stages",   "micro_batches", "micro_batch_size",
                                              "replicas", "schedule",      "recompute"};
  o.group_gradients = group_gradients == 1 ? 0 : group_gradients;
  std::string text;
  for (const option_description& option : plan_option_list) {
    const std::int64_t value = option.get(o);
    if (std::find(std::begin(in_sentence), std::end(in_sentence), option.name) == std::end(in_sentence) &&
        value != option.get(plan_options{}))
      text.append(", ").append(option.name).append(" ").append(option.text(static_cast<std::uint64_t>(value)));
  }
  return text;
}

GPIPE_COLD GPIPE_INLINE std::string quality_text(const network& net, const plan_options& o, const cut_quality& v,
                                                 const distance* from_optimum) {
  const auto above = [](std::int64_t value, std::int64_t min) {
    return value > min ? percent(static_cast<double>(value - min), static_cast<double>(min)) + " above "
                       : std::string();
  };
  const std::string step = (v.step > v.min && !v.proven ? "at most " : "") + above(v.step, v.min);
  std::string text = "the cut is " + step + "the optimum";
  if (from_optimum != nullptr)
    text = "the cut's bottleneck is " + above(from_optimum->of_cut, from_optimum->optimum) +
           "the optimum; its step is " + step + "the shortest of " +
           (v.cuts > 0 ? "all " + several(v.cuts, "cut") : std::string("any cut"));
  if (o.limits_memory()) text += " within the memory limit";
  if (v.free > 0 && v.min > v.free) text += ", which is " + above(v.min, v.free) + "that without";
  if (!v.whole && is_probed(net, o))
    text +=
        "; a cut of more than " + several(max_layers_searched, "layer") + " that may run again is probed, not searched";
  else if (!v.whole)
    text += "; the search within the limit stopped after " + several(memory_limited_cut::max_partials, "partial cut");
  return text;
}

/// A line about a choice of `shard` that has no effect, or not the full one.
GPIPE_COLD inline std::string shard_text(const plan_facts& plan) {
  const plan_options& o = plan.options;
  if (o.shard == shard::none) return "";
  if (o.replicas == 1) return concat({"shard ", name_of(o.shard), " does nothing: there is one replica\n"});
  if (o.shard != shard::gradients || o.micro_batches <= plan.group_gradients) return "";
  return concat({"gradients are whole in every replica until the step's last backward: ", o.micro_batches,
                 " micro-batches add to them one after the other\n"});
}

/// A layer's name for a column: without its options if they are long.
GPIPE_COLD inline std::string column_name(std::string_view name) {
  const std::size_t options = name.find('<');
  return name.size() <= 40 || options == name.npos ? std::string(name) : std::string(name.substr(0, options)) + "<...>";
}

/// The whole micro-batches that a stage runs forward again because of a limit.
GPIPE_COLD inline int micro_batches_again(const plan_facts& plan, int stage) {
  const plan_options& o = plan.options;
  const schedule_choice schedule = o.chosen_schedule();
  if (o.recompute_whole() != recompute_mode::as_needed || !o.limits_memory() || !schedule.trains) return 0;
  const zeroed_array<int> working_sets(o.stages);
  working_sets[stage] = plan.stages[static_cast<std::size_t>(stage)].requirements.kept_copies;
  const zeroed_array<bool> recomputed(o.micro_batches);
  return flag_recomputed(schedule, o.stages, o.micro_batches, {recompute_mode::as_needed, working_sets.data()}, stage,
                         recomputed.data());
}

/// The parts that a stage runs forward again, and their share of its time: "6 layers, 4.1 %", or "3 of 8 micro-batches,
/// 11.0 %".
GPIPE_COLD inline std::string recomputed_text(const plan_facts& plan, int stage) {
  const stage_view view(plan.net, plan.cut, stage);
  const layer_cost* const costs = plan.costs.of(stage);
  int layers = 0;
  double recomputed = 0, time = 0, forward = 0;
  for (int l = view.first(); l < view.last(); ++l) {
    const layer_cost& c = costs[l];
    time += static_cast<double>(c.forward + c.backward_input + c.backward_parameters);
    forward += static_cast<double>(c.forward);
    if (view.recomputed(l)) ++layers, recomputed += static_cast<double>(c.forward);
  }
  if (const int whole = layers > 0 ? 0 : micro_batches_again(plan, stage); whole > 0) {
    const int micro_batches = plan.options.micro_batches;
    return concat({whole, " of ", several(micro_batches, "micro-batch"), ", ",
                   percent(whole * forward, micro_batches * time + whole * forward)});
  }
  return layers == 0 ? "none" : several(layers, "layer") + ", " + percent(recomputed, time + recomputed);
}

/// A path for a column: without its middle if it is long.
GPIPE_COLD inline std::string column_path(const std::string& path) {
  constexpr std::size_t max = 24, begin = 9, dots = 3;
  if (path.size() <= max) return path;
  return path.substr(0, begin) + "..." + path.substr(path.size() - (max - begin - dots));
}

/// The layers of a stage that run forward again by themselves: "h.0.ln, h.0.mlp.1 and 10 more".
GPIPE_COLD inline std::string layers_again(const plan_facts& plan, int stage) {
  constexpr int max_named = 2;
  const stage_view view(plan.net, plan.cut, stage);
  std::string text;
  int count = 0;
  for (int l = view.first(); l < view.last(); ++l)
    if (view.recomputed(l) && count++ < max_named) text += (count > 1 ? ", " : "") + column_path(path_of(plan.net, l));
  return count > max_named ? concat({text, " and ", count - max_named, " more"}) : text;
}

/// One line per pattern in `recompute_layers` that recomputes nothing.
GPIPE_COLD inline std::string idle_patterns_text(const plan_facts& plan) {
  const layer_patterns& patterns = plan.options.recompute_layers;
  if (patterns.empty()) return "";
  if (!plan.options.chosen_schedule().trains)
    return concat({"recompute_layers does nothing: ", plan.options.chosen_schedule().name(), " has no backward\n"});
  std::string text;
  for (int i = 0; i < patterns.count; ++i) {
    bool runs = false;
    for (int l = 0; plan.cut.recomputed_before != nullptr && l < plan.net.layer_count; ++l)
      runs = runs || (plan.cut.recomputed_before[l] >= 0 && matches_layer(plan.net, patterns.texts[i], l));
    if (!runs)
      text +=
          concat({"the pattern ", quoted(patterns.texts[i]),
                  " of recompute_layers recomputes nothing: neither backward nor a recompute of the same stage reads "
                  "what these layers write\n"});
  }
  return text;
}

/// When the stages pack their weights (see `packed_weights`): "in turn in stages 0-2, kept in stage 3, and on the way
/// in 2 layers with many rows".
GPIPE_COLD inline std::string packed_text(const plan_facts& plan) {
  const int S = plan.options.stages;
  std::int64_t bytes = 0;
  int layers = 0;
  for (int s = 0; s < S; ++s) {
    const auto& [first, last, needs, memory, counted] = plan.stages[static_cast<std::size_t>(s)];
    bytes += memory.of(memory_kind::derived);
    for (int l = plan.cut.first[s]; l < plan.cut.first[s + 1]; ++l)
      layers += packing_of(plan.net.type_of(l), needs) != needs.packed && plan.net.type_of(l).rows_of_weights(1) > 0;
  }
  if (bytes == 0) return "";
  const auto choice = [&](int s) { return plan.stages[static_cast<std::size_t>(s)].requirements.packed; };
  std::string text;
  for (int first = 0, next = 0; first < S; first = next) {
    while (next < S && choice(next) == choice(first)) ++next;
    text.append(text.empty() ? "" : ", ").append(name_of(choice(first)));
    if (first == 0 && next == S) break;
    text += next - first == 1 ? concat({" in stage ", first}) : concat({" in stages ", first, "-", next - 1});
  }
  if (layers > 0) text += ", and on the way in " + several(layers, "layer") + " with many rows";
  return "packed weights, " + sized(static_cast<std::uint64_t>(bytes)) + ": " + text + "\n";
}

GPIPE_COLD GPIPE_INLINE std::string describe(const plan_facts& plan) {
  const auto& o = plan.options;
  const schedule_choice schedule = o.chosen_schedule();
  const bool split = splits_backward(schedule, o.stages, o.micro_batches);
  std::vector<double> times;
  double total = 0;
  for (int s = 0; s < o.stages; ++s) {
    const stage_times t = times_of(plan.costs.of(s), plan.cut.first[s], plan.cut.first[s + 1], split);
    times.push_back(static_cast<double>(t.forward + t.backward_input + t.backward_parameters));
    total += times.back();
  }
  std::vector<std::vector<std::string>> rows{{"stage", "layers", "from", "to", "share", "parameters", "memory"}};
  bool recomputes = plan.cut.recomputed_before != nullptr;
  for (int s = 0; s < o.stages; ++s) recomputes = recomputes || micro_batches_again(plan, s) > 0;
  if (recomputes) rows[0].push_back("recomputed");
  if (plan.cut.recomputed_before != nullptr) rows[0].push_back("run again");
  std::int64_t naive = 0, bytes = 0;
  for (int s = 0; s < o.stages; ++s) {
    const int first = plan.cut.first[s], last = plan.cut.first[s + 1];
    const stage_memory& memory = plan.stages[static_cast<std::size_t>(s)].memory;
    std::size_t parameters = 0;
    for (int l = first; l < last; ++l) parameters += plan.net.own_elements(l);
    bytes += memory.total();
    naive += memory.naive;
    rows.push_back({std::to_string(s),
                    last - first == 1 ? std::to_string(first) : std::to_string(first) + "-" + std::to_string(last - 1),
                    column_name(plan.net.type_of(first).name), column_name(plan.net.type_of(last - 1).name),
                    percent(times[static_cast<std::size_t>(s)], total), counted(parameters),
                    sized(static_cast<std::uint64_t>(memory.total()))});
    if (recomputes) rows.back().push_back(recomputed_text(plan, s));
    if (std::string names = layers_again(plan, s); !names.empty()) rows.back().push_back(std::move(names));
  }
  const bool by_step = drains(schedule, o.stages) && !o.cost_transfers;
  const distance from_optimum = by_step ? distance{} : distance_of(plan.net, o, schedule, plan.costs, plan.cut.first);
  const cut_quality quality = quality_of_cut(plan.net, o, plan.costs, plan.cut.first);
  const char* costs = o.profile.count > 0 ? "its profile" : o.device_count > 0 ? "its devices" : o.device.name;
  return table(rows) +
         concat({schedule.name(),
                 ", ",
                 several(o.micro_batches, "micro-batch"),
                 " of at most ",
                 several(o.micro_batch_size, "sample"),
                 o.replicas > 1 ? " in each of " + several(o.replicas, "replica") : "",
                 ", recompute ",
                 o.recompute_layers.empty() ? name_of(o.recompute) : "of listed layers",
                 other_options(o, plan.group_gradients),
                 ": bubble ",
                 percent(timetable(schedule, o.stages, o.micro_batches).bubble(), 1),
                 "\npredicted step time: ",
                 time_text(makespan_of(
                     plan.net, o, schedule, plan.costs, plan.cut,
                     [&](int s) { return plan.stages[static_cast<std::size_t>(s)].requirements.kept_copies; })),
                 o.profile.count > 0 ? " by " : " on ",
                 costs,
                 "; lower bound for any cut: ",
                 time_text(lower_bound_of(plan.net, o, schedule, plan.costs)),
                 "\n",
                 quality_text(plan.net, o, quality, by_step ? nullptr : &from_optimum),
                 "\n",
                 shard_text(plan),
                 idle_patterns_text(plan),
                 "memory of all stages",
                 o.replicas > 1 ? " of a replica: " : ": ",
                 sized(static_cast<std::uint64_t>(bytes)),
                 "; without sharing: ",
                 sized(static_cast<std::uint64_t>(naive)),
                 "\n",
                 packed_text(plan)});
}

}  // namespace detail

GPIPE_COLD GPIPE_INLINE std::int64_t step_time(const network& net, const step_plan& plan) {
  return detail::makespan_of(net, plan.options, plan.options.chosen_schedule(), plan.costs(), plan.cut(),
                             [&](int s) { return plan.requirements(s).kept_copies; });
}

GPIPE_COLD GPIPE_INLINE std::string describe(const network& net, const step_plan& plan) {
  std::string text =
      detail::describe({net, plan.options, plan.cut(), plan.costs(), plan.group_gradients, plan.stage_plans});
  if (plan.table != nullptr && plan.table_gap == 0) text += "the searched table is the shortest for these stages\n";
  else if (plan.table != nullptr)
    text += "the searched table is at most " + detail::percent(plan.table_gap, 1) + " longer than the shortest\n";
  return text;
}

}  // namespace gpipe
