#pragma once

#include <gpipe/core/error.hpp>
#include <gpipe/core/text/quantity.hpp>
#include <gpipe/plan/step_plan.hpp>
#include <gpipe/record/trace.hpp>
#include <gpipe/tools/drawing/timeline.hpp>

#include <algorithm>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <map>
#include <ostream>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace gpipe {

/// One step of a training, with the events of all workers.
struct recorded_step {
  int step = 0;   ///< the optimizer's
  int among = 0;  ///< the number of steps from which it was chosen
  std::int64_t begin_ns = 0, end_ns = 0;
  std::int64_t not_running_ns = 0;  ///< of all workers, in their actions
  std::vector<trace_event> events = {};

  std::int64_t length_ns() const { return end_ns - begin_ns; }
};

/// The step of a trace that shows its schedule best. Among the last steps, at most `last` of them, only those count in
/// which the threads were off their cores for the shortest time, within a hundredth of the step. The result is their
/// median by the time from the first event to the last, the shorter one of two. A step that a full recorder has cut off
/// does not count. Throws `error` if there is no step.
GPIPE_COLD inline recorded_step least_disturbed_step(std::span<const recorder> workers, int last = 20) {
  int whole = INT_MAX;  // steps below this number are in the trace from begin to end
  std::map<int, recorded_step> steps;
  for (const recorder& worker : workers) {
    int newest = -1;
    for (const trace_event& e : worker.events()) {
      if (e.step < 0) continue;
      newest = e.step;
      recorded_step& recorded = steps.try_emplace(e.step, recorded_step{e.step, 0, e.begin_ns, e.end_ns}).first->second;
      recorded.begin_ns = (std::min)(recorded.begin_ns, e.begin_ns);
      recorded.end_ns = (std::max)(recorded.end_ns, e.end_ns);
      recorded.not_running_ns += e.not_running_ns;
    }
    if (worker.dropped() == 0) continue;
    const bool ended = !worker.events().empty() && worker.events().back().step < 0;  // the newest step
    whole = (std::min)(whole, newest + ended);
  }
  steps.erase(steps.lower_bound(whole), steps.end());
  if (steps.empty() || last < 1)
    throw error("no whole step is in the trace", "set trace_events to the events of a step, and take a step");

  std::vector<recorded_step> found;
  for (auto it = steps.rbegin(); it != steps.rend() && static_cast<int>(found.size()) < last; ++it)
    found.push_back(std::move(it->second));
  const int among = static_cast<int>(found.size());
  const recorded_step& least = *std::min_element(
      found.begin(), found.end(),
      [](const recorded_step& a, const recorded_step& b) { return a.not_running_ns < b.not_running_ns; });
  const std::int64_t allowed = least.not_running_ns + least.length_ns() / 100;
  std::erase_if(found, [&](const recorded_step& step) { return step.not_running_ns > allowed; });
  const auto middle = found.begin() + static_cast<std::ptrdiff_t>((found.size() - 1) / 2);
  std::nth_element(found.begin(), middle, found.end(),
                   [](const recorded_step& a, const recorded_step& b) { return a.length_ns() < b.length_ns(); });
  recorded_step chosen = std::move(*middle);
  chosen.among = among;
  for (const recorder& worker : workers)
    for (const trace_event& e : worker.events())
      if (e.step == chosen.step) chosen.events.push_back(e);
  return chosen;
}

namespace detail {

/// "ZB-V, S = 8, M = 16, 4 workers: step 113 took 12.3 ms, the least disturbed of the last 20". Steps are counted from
/// 0.
GPIPE_COLD inline std::string timeline_title(const step_plan& plan, const recorded_step& step) {
  using detail::several;
  std::string title = std::string(plan.schedule) + ", S = " + std::to_string(plan.stages()) +
                      ", M = " + std::to_string(plan.micro_batches());
  if (plan.workers() != plan.stages()) title += ", " + several(plan.workers(), "worker");
  if (plan.replicas() > 1) title += ", R = " + std::to_string(plan.replicas());
  const double ms = static_cast<double>(step.length_ns()) * 1e-6;
  title += ": step " + std::to_string(step.step) + " took " +
           detail::fixed(ms, ms >= 100  ? 0
                             : ms >= 10 ? 1
                             : ms >= 1  ? 2
                                        : 3) +
           " ms";
  return step.among > 1 ? title + ", the least disturbed of the last " + std::to_string(step.among) : title;
}

}  // namespace detail

/// Draws the least disturbed of the last twenty steps of a training, which needs `trace_events`.
GPIPE_COLD inline void write_timeline(std::ostream& out, const step_plan& plan, std::span<const recorder> workers,
                                      timeline_options options = {}) {
  const recorded_step step = least_disturbed_step(workers);
  if (options.title.empty()) options.title = detail::timeline_title(plan, step);
  write_timeline(out, step.events, options);
}

/// Throws `gpipe::error` with the path unless the file was written completely.
GPIPE_COLD inline void write_timeline(const std::string& path, const step_plan& plan, std::span<const recorder> workers,
                                      timeline_options options = {}) {
  const recorded_step step = least_disturbed_step(workers);  // before the old file is lost
  if (options.title.empty()) options.title = detail::timeline_title(plan, step);
  write_timeline(path, step.events, options);
}

}  // namespace gpipe
