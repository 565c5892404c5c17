#pragma once

#include <gpipe/core/error.hpp>
#include <gpipe/core/text/quantity.hpp>
#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/record/stage_report.hpp>
#include <gpipe/tools/report/breakdown.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <span>
#include <string>
#include <vector>

namespace gpipe {

/// One line, if a process has more workers than cores that it is bound to, or the processes of a host have more workers
/// than cores that they are bound to together; else empty.
GPIPE_COLD inline std::string bound_note(std::span<const stage_report> stages) {
  for (const stage_report& s : stages)
    if (s.bound_to > 0 && s.process_workers > s.bound_to)
      return detail::concat({"note: ", s.process_workers, " workers share ", detail::several(s.bound_to, "core"),
                             ", to which their process is bound; let it have more: mpirun by --bind-to none or ",
                             "--map-by slot:PE=", s.process_workers, ", without mpirun see taskset -p\n"});
  for (const stage_report& s : stages)
    if (const int workers = s.host_workers; s.host_bound_to > 0 && workers > s.host_bound_to)
      return detail::concat(
          {"note: ", s.host_processes, " processes of a host",
           workers > s.host_processes ? detail::concat({", with ", workers, " workers,"}) : std::string(), " share ",
           detail::several(s.host_bound_to, "core"),
           ", to which they are bound; let mpirun give them more: --bind-to none, or --map-by core\n"});
  return {};
}

/// One line with the number of cores per worker, if each worker is bound to its own cores; else empty.
GPIPE_COLD inline std::string own_cores_note(std::span<const stage_report> stages) {
  int least = 0, most = 0, on_other_nodes = 0, sharers = 1;
  for (const stage_report& s : stages) {
    if (s.own_cores == 0) continue;
    least = least == 0 ? s.own_cores : (std::min)(least, s.own_cores);
    most = (std::max)(most, s.own_cores);
    on_other_nodes += s.far_memory ? 1 : 0;
    sharers = (std::max)(sharers, s.core_sharers);
  }
  if (most == 0) return {};
  return detail::concat({"workers are bound to ", least < most ? std::to_string(least) + " to " : std::string(),
                         detail::several(most, "core"), " each",
                         sharers > 1 ? detail::concat({", which up to ", sharers, " share"}) : std::string(),
                         on_other_nodes > 0 ? detail::concat({"; the system refused to move the memory of ",
                                                              detail::several(on_other_nodes, "stage"), " near them"})
                                            : std::string(),
                         "\n"});
}

/// One line per stage, replica after replica: the plan's prediction against the measurement. Shares are of the time of
/// all stages (the measured ones include the update, which no cut considers); idle is the stage's own. Then the mean
/// step time next to the predicted one, and its breakdown. `cores` and `predicted_ps` (picoseconds, as returned by
/// `step_time`) of 0 are unknown.
///
///     stage  layers  parameters   memory  predicted  measured    idle  forward  recompute  backward  update
///         0    0-11      1.06 M  12.5 MiB     51.0 %    52.3 %   3.1 %  10.2 ms    10.1 ms   20.9 ms  1.4 ms
GPIPE_COLD inline void write_report(std::ostream& out, std::span<const stage_report> stages, unsigned cores = 0,
                                    std::int64_t predicted_ps = 0) {
  double predicted = 0, measured = 0, slowest = 0;
  std::string slowest_stage;
  const bool several = !stages.empty() && stages.back().replica > 0;
  std::uint64_t bytes = 0, parameters = 0;
  for (const auto& s : stages) {
    const auto busy = static_cast<double>(s.busy());
    predicted += s.predicted_share;
    measured += busy;
    bytes += s.bytes;
    if (s.replica == 0) parameters += s.parameters;
    if (busy > slowest)
      slowest_stage =
          (several ? "replica " + std::to_string(s.replica) + ", stage " : "stage ") + std::to_string(s.stage);
    slowest = (std::max)(slowest, busy);
  }
  const auto time = [&](std::int64_t ns) {
    return measured > 0 ? detail::fixed(static_cast<double>(ns) * 1e-6, 1) + " ms" : "-";
  };
  std::vector<std::vector<std::string>> rows{{"replica", "stage", "layers", "parameters", "memory", "predicted",
                                              "measured", "idle", "forward", "recompute", "backward", "update"}};
  for (const auto& s : stages) {
    const auto busy = static_cast<double>(s.busy()), wait = static_cast<double>(s.wait_ns);
    // change: an action; by the kind of its time
    rows.push_back(
        {std::to_string(s.replica), std::to_string(s.stage),
         s.last - s.first == 1 ? std::to_string(s.first) : std::to_string(s.first) + "-" + std::to_string(s.last - 1),
         detail::counted(s.parameters), detail::sized(s.bytes), detail::percent(s.predicted_share, predicted),
         detail::percent(busy, measured), detail::percent(wait, busy + wait), time(s.busy(action_kind::forward)),
         time(s.busy(action_kind::recompute)),
         time(s.busy(action_kind::backward) + s.busy(action_kind::backward_input) +
              s.busy(action_kind::backward_parameters)),
         time(s.busy(action_kind::reduce) + s.busy(action_kind::update))});
  }
  if (stages.size() > 1) rows.push_back({"", "all", "", detail::counted(parameters), detail::sized(bytes)});
  if (!several)
    for (auto& line : rows) line.erase(line.begin());
  out << detail::table(rows);
  if (measured > 0 && stages.size() > 1) {
    out << slowest_stage
        << " is the slowest: " << detail::fixed(slowest * static_cast<double>(stages.size()) / measured, 2)
        << " of the mean\n";
  }
  const breakdown parts = breakdown_of(stages);
  if (parts.steps > 0) {
    out << "a step took " << detail::significant(parts.step_ms(), 4) << " ms";
    if (predicted_ps > 0)
      out << ", predicted " << detail::significant(1e-9 * static_cast<double>(predicted_ps), 4) << " ms";
    out << ";\n" << describe(parts) << " of its workers' time\n";
  }
  out << own_cores_note(stages);
  if (const std::string note = bound_note(stages); !note.empty()) {
    out << note;
  } else if (const auto workers = static_cast<unsigned>(parts.workers); cores > 0 && workers > cores) {
    out << "note: " << std::to_string(workers) << " workers share " << std::to_string(cores)
        << (cores == 1 ? " core" : " cores") << ": idle time and shares would differ on as many devices\n";
  }
}

}  // namespace gpipe
