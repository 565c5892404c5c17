#pragma once

#include <algorithm>

#include <gpipe/core/error.hpp>
#include <gpipe/plan/runtime_plan.hpp>
#include <gpipe/record/measured_profile.hpp>
#include <gpipe/runtime/hooks/layer_timer.hpp>
#include <gpipe/runtime/processes/remote_links.hpp>

namespace gpipe::detail {

/// What each slot of a stage took for a full micro-batch, by its stopwatch: medians of the newest times; -1 if there
/// are none.
template <class Stage>
GPIPE_COLD void append_measured(const runtime_plan& plan, const Stage& stage, measured_profile& into) {
  for (const auto& b : stage.slots()) {
    const auto median = [&](timed part) {
      return stage.watch() == nullptr ? -1 : stage.watch()->median(b.slot - stage.slots().front().slot, part);
    };
    const auto known = [](std::int64_t ns) { return (std::max)(std::int64_t{0}, ns); };
    measured_layer line{b.slot, b.layer->name, median(timed::forward), known(median(timed::backward_input)),
                        known(median(timed::backward_parameters))};
    if (const std::int64_t both = median(timed::backward); both >= 0) {
      // As much of it for each part as the costs say.
      const layer_cost& costs = plan.costs().of(stage.stage())[b.slot];
      const double all = static_cast<double>(costs.backward_input) + static_cast<double>(costs.backward_parameters);
      const double part = all > 0 ? static_cast<double>(costs.backward_input) / all : 1;
      line.backward_input_ns = static_cast<std::int64_t>(static_cast<double>(both) * part);
      line.backward_parameters_ns = both - line.backward_input_ns;
    }
    into.layers.push_back(line);
  }
}

/// Brings to all processes what the first replica's has measured of a stage: behind what is found of those before it.
GPIPE_COLD inline void share_measured(const network& net, const runtime_plan& plan, const abroad& others, int stage,
                                      measured_profile& found) {
  const auto index = [](int i) { return static_cast<std::size_t>(i); };
  for (int l = plan.first[index(stage)]; l < plan.first[index(stage) + 1]; ++l) {
    measured_layer& line = found.layers.size() > index(l) ? found.layers[index(l)] : found.layers.emplace_back();
    std::int64_t ns[] = {line.forward_ns, line.backward_input_ns, line.backward_parameters_ns};
    others.share(0, stage, ns, sizeof ns);
    line = {l, net.row_of(l).name, ns[0], ns[1], ns[2]};
  }
}

/// Throws `error` if some slot was not timed.
GPIPE_COLD inline void require_measured(const runtime_plan& plan, const measured_profile& found) {
  for (const measured_layer& line : found.layers)
    if (line.forward_ns < 0)
      throw_error({"no full micro-batch was timed"},
             {"run steps of ", plan.max_batch(), " samples with slot_times"}, {.slot = line.position});
}

}  // namespace gpipe::detail
