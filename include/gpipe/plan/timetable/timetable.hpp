#pragma once

#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/plan/schedule/contract/label.hpp>
#include <gpipe/plan/schedule/contract/scheduler.hpp>

#include <cstdint>

namespace gpipe {

/// A schedule at one (S, M). Throws if the schedule does not admit them.
template <scheduler Schedule>
struct timetable {
  Schedule schedule;
  int stages, micro_batches;

  constexpr timetable(const Schedule& chosen, int stage_count, int micro_batch_count)
      : schedule(chosen), stages(stage_count), micro_batches(micro_batch_count) {
    detail::require_admitted(schedule, stages, micro_batches);
  }

  constexpr int workers() const { return schedule.workers(stages); }
  constexpr int ticks() const { return schedule.ticks(stages, micro_batches); }
  constexpr cell at(int worker, int tick) const { return schedule.at(stages, micro_batches, worker, tick); }

  /// Length of a step in which a stage takes `forward`, `input` and `parameters` for its forward and the two parts of
  /// its backward (any unit), neighbours wait for each other and transfers are free. It is the schedule's formula if
  /// the schedule has one.
  constexpr std::int64_t makespan(std::int64_t forward, std::int64_t input, std::int64_t parameters) const {
    if constexpr (requires { schedule.makespan(stages, micro_batches, forward, input); })
      return schedule.makespan(stages, micro_batches, forward, input + parameters);
    else return simulate(forward, input, parameters);
  }

  /// The same by simulation of the table.
  constexpr std::int64_t simulate(std::int64_t forward, std::int64_t input, std::int64_t parameters) const {
    const detail::zeroed_array<std::int64_t> free(workers()), done(2 * stages * micro_batches);
    const auto end_of = [&](int stage, int m, bool back) -> std::int64_t& {
      return done[2 * (stage * micro_batches + m) + back];
    };
    std::int64_t makespan = 0;
    for (int t = 0; t < ticks(); ++t)
      for (int w = 0; w < workers(); ++w) {
        const cell c = at(w, t);
        if (c.kind == action_kind::idle) continue;
        std::int64_t& worker_time = free[w];
        const int s = c.stage, m = c.micro_batch;
        std::int64_t needs = 0;
        if (c.kind == action_kind::forward && s > 0) needs = end_of(s - 1, m, false);
        if ((c.kind == action_kind::backward || c.kind == action_kind::backward_input) && s + 1 < stages)
          needs = end_of(s + 1, m, true);
        if (needs > worker_time) worker_time = needs;
        worker_time += c.kind == action_kind::forward          ? forward
                       : c.kind == action_kind::backward_input ? input
                       : c.kind == action_kind::backward       ? input + parameters
                                                               : parameters;
        if (c.kind != action_kind::backward_parameters) end_of(s, m, c.kind != action_kind::forward) = worker_time;
        if (worker_time > makespan) makespan = worker_time;
      }
    return makespan;
  }

  /// Idle share of the workers with f = 1 and b = 2, as the paper counts: (S - 1) / (M + S - 1) for fill-drain.
  constexpr double bubble() const {
    const std::int64_t total = workers() * makespan(1, 1, 1);
    const std::int64_t busy = std::int64_t{schedule.trains ? 3 : 1} * stages * micro_batches;
    return static_cast<double>(total - busy) / static_cast<double>(total);
  }

  /// Draws the table, letter by letter, in the form of the comments above the schedules. If workers have several
  /// stages, each cell names its stage.
  template <class Put>
  constexpr void draw(Put&& put) const {
    const bool several = workers() < stages;
    int width =
        detail::label_of(cell{action_kind::forward, several ? stages - 1 : -1, micro_batches - 1}, several).size + 2;
    if (detail::label tick; tick.put(ticks() - 1), tick.size + 2 > width) width = tick.size + 2;
    detail::label last;
    last.put(several ? "worker " : "stage ");
    last.put(workers() - 1);
    const int margin = last.size + 2;
    const auto line = [&](const detail::label& head, const auto& entry) {
      for (const char letter : head.text()) put(letter);
      int gap = margin - head.size;
      for (int t = 0; t < ticks(); ++t) {
        const detail::label text = entry(t);
        for (; gap > 0; --gap) put(' ');
        for (const char letter : text.text()) put(letter);
        gap = width - text.size;
      }
      put('\n');
    };
    detail::label head;
    head.put("tick");
    line(head, [](int t) {
      detail::label number;
      number.put(t);
      return number;
    });
    for (int w = 0; w < workers(); ++w) {
      head = {};
      head.put(several ? "worker " : "stage ");
      head.put(w);
      line(head, [&](int t) { return detail::label_of(at(w, t), several); });
    }
  }
};

}  // namespace gpipe
