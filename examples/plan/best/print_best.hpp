#pragma once

// The output of `plan best`.

#include <cstddef>
#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

#include <gpipe/core/text/quantity.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/tools/best/find_best.hpp>

#include "../families.hpp"
#include "../stretched.hpp"
#include "../text.hpp"
#include "best_settings.hpp"
#include "table_network.hpp"

namespace example {

using namespace gpipe;

/// The plan's stages: layers, bytes, and what runs again.
inline void print_stages_of(const network& net, const step_plan& p) {
  table rows{{"stage", "device", "layers", "from", "to", "memory", "share"}};
  for (int s = 0; s < p.stages(); ++s) {
    const int first = p.cut().first[s], last = p.cut().first[s + 1] - 1;
    rows.push_back({std::to_string(s), std::to_string(p.worker_of(s)), concat({first, "-", last}),
                    std::string(net.type_of(first).name), std::string(net.type_of(last).name),
                    bytes(p.memory(s).total()), percent(p.share(s))});
  }
  std::cout << gpipe::detail::table(rows);
}

inline void print_best(const best_settings& chosen, const std::string& title, const network& net,
                       const plan_options& rest) {
  const best_plan best = find_best(net, chosen.space, rest, chosen.effort);
  const plan_candidate& it = best.winner;
  if (chosen.plain) {
    std::cout << "replicas " << it.replicas << "\nworkers " << it.workers << "\nstages " << it.stages << "\nschedule "
              << word_for(schedules, it.schedule) << "\nmicro_batches " << it.micro_batches << "\nmicro_batch_size "
              << it.micro_batch_size << "\nstep_ps " << best.step << "\nlower_bound_ps " << best.min << "\nplans "
              << best.plans << "\nopen " << best.open << "\nfirst_layers";
    for (const int first : best.cut) std::cout << ' ' << first;
    std::cout << '\n';
    return;
  }
  std::cout << title << ": " << several(net.layer_count, "layer") << ", " << rest.device.name << " with "
            << bytes(rest.memory_limit) << "\n\n"
            << describe(best) << "\nIts stages:\n\n";
  print_stages_of(net, make_plan(net, best.options, best.cut));
}

inline void print_best(best_settings chosen, const network& own) {
  plan_options rest = chosen.rest();
  if (!chosen.costs.empty()) {
    if (chosen.space.batch == 0) chosen.space.batch = 32;
    const table_network made(read_layer_table(chosen.costs));
    rest.profile = made.profile();
    return print_best(chosen, chosen.costs, made.net(), rest);
  }
  const family all = family_of(chosen.model, own);
  if (chosen.width > static_cast<int>(all.members.size()))
    throw error("option --width is " + std::to_string(chosen.width),
                "choose 1 to " + std::to_string(all.members.size()) + ": the widths of " + all.title);
  const family_member& of = all.members[static_cast<std::size_t>(chosen.width - 1)];
  const int more = chosen.depth - of.depth;
  if (chosen.depth > 0 && (more < 0 || more % of.step != 0 || of.parts.empty()))
    throw error("option --depth is " + std::to_string(chosen.depth),
                of.parts.empty() ? std::string("leave it out: the model has no repetitions")
                                 : concat({"choose ", of.depth, ", or more in steps of ", of.step}));
  if (chosen.space.batch == 0) chosen.space.batch = all.micro_batches;
  const stretched made(*of.net, of.parts, chosen.depth > 0 ? more / of.step : 0);
  print_best(chosen, all.title + (of.width.empty() ? "" : ", " + of.width), made.net(), rest);
}

}  // namespace example
