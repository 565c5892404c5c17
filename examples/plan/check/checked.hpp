#pragma once

// Prints what a table of a schedule does, and what is wrong with it.

#include <cstddef>
#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

#include <gpipe/core/text/quantity.hpp>
#include <gpipe/plan/timetable/schedule_table.hpp>
#include <gpipe/record/file/read_file.hpp>

#include "../../layer_table.hpp"
#include "../text.hpp"
#include "check_settings.hpp"
#include "schedule_run.hpp"

namespace example {

using namespace gpipe;

/// The costs of stages: a line a stage of a table, or units.
struct checked_costs {
  std::vector<stage_times> times;
  std::vector<std::int64_t> kept, parameters;  ///< bytes: of a micro-batch, and of the whole step
  bool given = false;

  checked_costs(const check_settings& chosen, int stages) : given(!chosen.costs.empty()) {
    const auto count = static_cast<std::size_t>(stages);
    if (!given) {
      times.assign(count, {.forward = 1, .backward_input = 1, .backward_parameters = 1});
      kept.assign(count, 0);
      parameters.assign(count, 0);
      return;
    }
    const std::vector<table_layer> lines = read_layer_table(chosen.costs);
    if (lines.size() != count)
      throw error(gpipe::detail::concat({"the table has ", several(static_cast<std::int64_t>(lines.size()), "line"),
                                         ", and the schedule has ", several(stages, "stage")}),
                  "give a line a stage: the sums of its layers", {.file = chosen.costs});
    for (const table_layer& l : lines) {
      if (l.forward_ns == 0)
        throw error(l.name + ": forward_ns is 0", "give the time that the stage takes", {.file = chosen.costs});
      times.push_back({.forward = l.forward_ns,
                       .backward_input = l.backward_ns / 2,
                       .backward_parameters = l.backward_ns - l.backward_ns / 2});
      kept.push_back(l.activation_bytes + l.output_bytes);
      parameters.push_back(l.parameter_bytes);
    }
  }

  std::string duration(std::int64_t of) const { return given ? time(of) : std::to_string(of); }
};

/// Whether a plan of gpipe takes the same table, or why not.
inline std::string accepted_by_gpipe(const std::string& file, const std::string& text) {
  try {
    schedule_table(file, text);
    return "gpipe takes this table, too: custom_schedule_from(schedule_table(name, text)) is a schedule of a plan.";
  } catch (const error& none) {
    return std::string("gpipe does not take this table: ") + none.what() + ".";
  }
}

inline void print_faults(const check_settings& chosen, const std::vector<table_fault>& faults) {
  constexpr std::size_t shown = 20;
  for (std::size_t i = 0; i < faults.size() && i < shown; ++i) {
    const table_fault& f = faults[i];
    std::cout << chosen.table;
    if (f.row > 0) std::cout << ':' << f.row;
    if (f.column > 0) std::cout << ": column " << f.column;
    std::cout << ": " << f.what << '\n';
  }
  if (faults.size() > shown)
    std::cout << "and " << several(static_cast<std::int64_t>(faults.size() - shown), "further fault") << '\n';
}

inline void print_check(const check_settings& chosen) {
  const std::string text = gpipe::read_file(chosen.table);
  schedule_run them(chosen.table, text);
  const checked_costs costs(chosen, them.stages());
  const schedule_run::step made = them.run(costs.times, costs.kept);
  std::vector<table_fault> faults = them.faults();
  std::vector<std::int64_t> bytes;
  for (int r = 0; r < them.ranks(); ++r) {
    const schedule_run::rank_step& of = made.ranks[static_cast<std::size_t>(r)];
    bytes.push_back(of.peak_bytes);
    for (const int s : them.stages_of(r))
      bytes.back() = gpipe::detail::summed(bytes.back(), costs.parameters[static_cast<std::size_t>(s)]);
    if (bytes.back() > chosen.limit)
      faults.push_back({r + 1, 0,
                        gpipe::detail::concat({"rank ", r, " needs ", several(bytes.back(), "byte"),
                                               ", and --memory-limit is ", several(chosen.limit, "byte")})});
  }
  print_faults(chosen, faults);
  if (!faults.empty())
    throw error(several(static_cast<std::int64_t>(faults.size()), "fault"), "correct the table",
                {.file = chosen.table});

  if (chosen.plain) {
    std::cout << "ranks " << them.ranks() << "\nstages " << them.stages() << "\nmicro_batches " << them.micro_batches()
              << '\n';
    for (std::size_t r = 0; r < made.ranks.size(); ++r)
      std::cout << "rank " << r << " busy " << made.ranks[r].busy << " micro_batches " << made.ranks[r].peak
                << " bytes " << bytes[r] << '\n';
    std::cout << "makespan " << made.makespan << "\nidle " << fixed(made.idle(), 4) << '\n';
    return;
  }
  std::cout << chosen.table << ": " << several(them.stages(), "stage") << " on " << several(them.ranks(), "rank")
            << ", " << several(them.micro_batches(), "micro-batch") << (them.trains() ? "" : ", forward only")
            << ": every cell once, and no deadlock\n\n";
  table rows{{"rank", "stages", "busy", "idle", "kept at most"}};
  if (costs.given) rows[0].push_back("memory");
  for (int r = 0; r < them.ranks(); ++r) {
    const schedule_run::rank_step& of = made.ranks[static_cast<std::size_t>(r)];
    std::string stages;
    for (const int s : them.stages_of(r)) stages += (stages.empty() ? "" : " ") + std::to_string(s);
    const double share = static_cast<double>(of.busy) / static_cast<double>(std::max<std::int64_t>(1, made.makespan));
    rows.push_back({std::to_string(r), stages, costs.duration(of.busy), percent(1 - share), std::to_string(of.peak)});
    if (costs.given) rows.back().push_back(sized(static_cast<std::uint64_t>(bytes[static_cast<std::size_t>(r)])));
  }
  std::cout << gpipe::detail::table(rows) << "\nA step takes " << costs.duration(made.makespan)
            << (costs.given ? "" : " units, of which a forward is 1 and a backward 2") << "; ranks are idle for "
            << percent(made.idle()) << " of it.\n"
            << accepted_by_gpipe(chosen.table, text) << '\n';
}

}  // namespace example
