#pragma once

#include <gpipe/plan/program/step_programs.hpp>
#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/plan/schedule/contract/label.hpp>
#include <gpipe/plan/timetable/timetable.hpp>

#include <string>

namespace gpipe {

/// One worker's program on a line, as in `F1 F0 B0 B1`.
GPIPE_COLD inline std::string describe(const detail::program_view& program, bool with_stage = false) {
  std::string text;
  for (int i = 0; i < program.length; ++i)
    text.append(i > 0 ? " " : "").append(detail::label_of(program.lines[i], with_stage).text());
  return text;
}

/// The drawn table.
template <class Schedule>
std::string describe(const timetable<Schedule>& table) {
  std::string text;
  table.draw([&text](char letter) { text += letter; });
  return text;
}

/// A check's result as a sentence, as in "deadlock: worker 1 at line 7, I0 (backward input)".
GPIPE_COLD inline std::string describe(const check_result& result) {
  if (result.ok()) return "no fault";
  return detail::concat({detail::name_of(result.error), ": worker ", result.worker, " at line ", result.position, ", ",
                         detail::label_of(result.action, true).text(), " (", name_of(result.action.kind), ")"});
}

/// As in "worker 1 waits at tick 7 in 1B0 (backward)".
GPIPE_COLD inline std::string describe(const detail::waiting_worker& waiting) {
  return detail::concat({"worker ", waiting.worker, " waits at tick ", waiting.tick, " in ",
                         detail::label_of(waiting.action, true).text(), " (", name_of(waiting.action.kind), ")"});
}

}  // namespace gpipe
