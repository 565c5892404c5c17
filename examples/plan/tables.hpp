#pragma once

// Prints what was planned: a line a stage, and a line a choice.

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

#include <gpipe/core/text/quantity.hpp>

#include "planner.hpp"
#include "text.hpp"

namespace example {

using namespace gpipe;

inline void print_plain(const planned& p) {
  for (std::size_t s = 0; s < p.stages.size(); ++s) {
    const planned_stage& of = p.stages[s];
    std::cout << "stage " << s << " first " << of.first << " last " << of.last - 1 << " forward_ns " << of.forward
              << " backward_ns " << of.backward << " bytes " << of.bytes << '\n';
  }
  std::cout << "makespan_ns " << p.makespan << "\nlower_bound_ns " << p.bound << '\n';
}

inline void print_stages(const subject& it, const choice& c, const planned& p) {
  std::cout << "\nThe best cut into " << several(c.stages, "stage") << " found for " << name_of(c.schedule) << " with "
            << several(c.micro_batches, "micro-batch") << ", recompute " << name_of(c.recompute);
  if (it.net)
    std::cout << ";\na micro-batch has " << several(it.options.micro_batch_size, "sample")
              << ", and times are predicted for " << it.options.device.name;
  std::cout << "\n\n";
  std::int64_t all = 0;
  for (const planned_stage& s : p.stages) all += s.forward + s.backward;
  table rows{{"stage", "layers", "from", "to", "parameters", "memory", "forward", "backward", "share"}};
  for (std::size_t s = 0; s < p.stages.size(); ++s) {
    const planned_stage& of = p.stages[s];
    rows.push_back({std::to_string(s), concat({of.first, "-", of.last - 1}),
                    it.names[static_cast<std::size_t>(of.first)], it.names[static_cast<std::size_t>(of.last) - 1],
                    it.parameters(of.first, of.last), bytes(of.bytes), time(of.forward), time(of.backward),
                    gpipe::detail::percent(static_cast<double>(of.forward + of.backward), static_cast<double>(all))});
  }
  std::cout << gpipe::detail::table(rows);
}

/// A line for a choice, or why it is refused.
inline void add_line(table& rows, std::string what, const subject& it, const choice& c) {
  try {
    const planned p = plan_for(it, c);
    const double above = p.bound > 0 ? static_cast<double>(p.makespan) / static_cast<double>(p.bound) : 1;
    rows.push_back({std::move(what), std::to_string(c.stages), std::to_string(p.workers), time(p.makespan),
                    time(p.bound), percent(above - 1), percent(p.idle), bytes(p.max_bytes())});
  } catch (const error& none) {
    rows.push_back({std::move(what), std::to_string(c.stages), "-", "-", "-", "-", "-", none.wrong()});
  }
}

inline void print_choices(const subject& it, const choice& chosen) {
  const auto head = [](const char* what) {
    return table{{what, "stages", "devices", "a step", "at least", "above", "idle", "largest device"}};
  };
  table by_stages = head(""), by_schedule = head("schedule"), by_recompute = head("recompute");
  for (int s = 1; s <= std::min(it.layers(), 2 * chosen.stages); s *= 2) {
    choice c = chosen;
    c.stages = s;
    add_line(by_stages, "", it, c);
  }
  for (const auto& [word, kind] : schedules) {
    choice c = chosen;  // the same number of devices: some schedules have two stages on each
    c.stages = c.stages * stages_per_worker(kind, c.chunks) / stages_per_worker(c.schedule, c.chunks);
    c.schedule = kind;
    add_line(by_schedule, word, it, c);
  }
  for (const auto& [word, mode] : recomputes) {
    choice c = chosen;
    c.recompute = mode;
    add_line(by_recompute, word, it, c);
  }
  for (const table* rows : {&by_stages, &by_schedule, &by_recompute}) {
    std::cout << '\n';
    std::cout << gpipe::detail::table(*rows);
  }
}

}  // namespace example
