#pragma once

// `plan sweep`: plans, writes the files, and prints the shortest step of each schedule.

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

#include <gpipe/core/text/quantity.hpp>
#include <gpipe/record/file/write_file.hpp>

#include "combination.hpp"
#include "page.hpp"
#include "settings.hpp"
#include "sweep.hpp"

namespace example {

using namespace gpipe;

/// A line for each schedule: its shortest step within each memory limit, for a table that of a micro-batch.
inline void print_shortest(const sweep_settings& chosen, const std::vector<swept>& all) {
  const bool of_table = !chosen.costs.empty();
  const auto longer = [of_table](const swept& a, const swept& b) {
    return of_table
               ? static_cast<double>(a.step) / a.of.micro_batches > static_cast<double>(b.step) / b.of.micro_batches
               : a.step > b.step;
  };
  table rows{
      {"a device", "schedule", "stages", "micro-batches", "recompute", "a step", "at least", "idle", "largest device"}};
  for (const std::int64_t limit : chosen.limits)
    for (const schedule_kind schedule : chosen.orders) {
      const swept* best = nullptr;
      for (const swept& it : all)
        if (it.planned() && it.of.limit == limit && it.of.schedule == schedule &&
            (best == nullptr || longer(*best, it)))
          best = &it;
      const std::string words = limit == INT64_MAX ? "no limit" : bytes(limit), name = name_in(schedules, schedule);
      if (best == nullptr) rows.push_back({words, name, "-", "-", "-", "-", "-", "-", "-"});
      else
        rows.push_back({words, name, std::to_string(best->of.stages), std::to_string(best->of.micro_batches),
                        name_in(recomputes, best->of.recompute), time(best->step), time(best->bound),
                        percent(best->idle), bytes(best->max_bytes)});
    }
  const auto refused = std::count_if(all.begin(), all.end(), [](const swept& it) { return !it.planned(); });
  std::cout << several(static_cast<std::int64_t>(all.size()), "combination") << ", " << refused
            << " without a plan. The shortest step of each schedule"
            << (of_table ? ", for each of its micro-batches" : "") << ":\n\n"
            << gpipe::detail::table(rows);
}

inline void run_sweep(sweep_settings chosen, const network& own) {
  for (const std::string& path : {chosen.csv, chosen.svg})
    if (!path.empty()) require_writable(path);
  if (!chosen.svg.empty()) sweep_page::require_readable(chosen);
  const bool of_table = !chosen.costs.empty();
  const subject costs = of_table ? from_table(chosen.costs) : subject{};
  const int layers = of_table ? costs.layers() : own.layer_count;
  if (!chosen.devices_given) chosen.devices = std::min(chosen.devices, std::max(1, layers / 2));
  progress_lines progress(chosen.combinations());
  const std::vector<swept> all =
      (of_table ? sweeper(chosen, costs) : sweeper(chosen, own)).plan_all([&](std::int64_t done) { progress(done); });
  if (chosen.csv.empty() && chosen.svg.empty()) return write_csv(std::cout, all);
  if (!chosen.csv.empty()) write_file(chosen.csv, [&](std::ostream& out) { write_csv(out, all); });
  if (std::none_of(all.begin(), all.end(), [](const swept& it) { return it.planned(); }))
    throw error("no combination has a plan; the first: " + all.front().refused,
                "choose other stages, micro-batches, schedules or limits");
  if (!chosen.svg.empty()) {
    const std::string what = of_table ? costs.title + ": the time of a step for each of its micro-batches"
                                      : "own_model: the time of a step, " + several(chosen.batch, "sample");
    write_file(chosen.svg, [&](std::ostream& out) { sweep_page(chosen, what, all).draw(out); });
  }
  print_shortest(chosen, all);
}

}  // namespace example
