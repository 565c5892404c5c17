#pragma once

#include <gpipe/core/error.hpp>
#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/plan/program/lower.hpp>
#include <gpipe/plan/program/step_programs.hpp>
#include <gpipe/plan/schedule/any_schedule.hpp>
#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/plan/stages/cut.hpp>
#include <gpipe/plan/timetable/check.hpp>
#include <gpipe/plan/timetable/recompute.hpp>

#include <cstdint>
#include <initializer_list>
#include <limits>

namespace gpipe {

/// The times of a stage for a micro-batch, in any unit.
struct stage_times {
  std::int64_t forward = 0, backward_input = 0, backward_parameters = 0;
  std::int64_t recompute = -1;  ///< negative: as long as forward
};

/// The transfer times of a micro-batch over a link, and of its gradient back.
struct link_times {
  std::int64_t forward = 0, back = 0;
};

/// The input of a simulation. The arrays belong to the caller and have one element per stage, or per link.
struct simulation_input {
  int stages = 1, micro_batches = 1;
  detail::recompute_choice recompute{};
  const stage_times* times = nullptr;
  const stage_link* links = nullptr;
  int link_count = 0;
  const link_times* transfers = nullptr;  ///< null: they take no time
  detail::send_mode sends = detail::send_mode::buffered;
};

/// Further results of a simulation; null pointers are not written.
struct simulation_report {
  std::int64_t* idle = nullptr;  ///< per worker: from the step's begin to its end
  int* peak_stash = nullptr;     ///< per stage: the maximum number of micro-batches whose inputs it holds
};

namespace detail {

[[noreturn]] GPIPE_COLD inline void bad_times(const char* subject, int index) {
  throw_error({subject, " ", index, " has a negative time"}, {"give times of zero or more"});
}
[[noreturn]] GPIPE_COLD inline void times_overflow() {
  throw_error({"the sum of a step's times overflows 64 bits"}, {"give them in a larger unit"});
}

/// Throws if the sum of times over a whole step overflows: no time in the simulation is larger than this sum.
constexpr void require_times(const simulation_input& input) {
  std::int64_t left = (std::numeric_limits<std::int64_t>::max)() / input.micro_batches;
  const auto take = [&left](std::int64_t time, const char* subject, int index) {
    if (time < 0) bad_times(subject, index);
    if (time > left) times_overflow();
    left -= time;
  };
  for (int s = 0; s < input.stages; ++s) {
    const stage_times& times = input.times[s];
    for (const std::int64_t time : {times.forward, times.backward_input, times.backward_parameters,
                                    times.recompute < 0 ? times.forward : times.recompute})
      take(time, "stage", s);
  }
  for (int i = 0; input.transfers && i < input.link_count; ++i)
    for (const std::int64_t time : {input.transfers[i].forward, input.transfers[i].back}) take(time, "link", i);
}

[[noreturn]] GPIPE_COLD inline void wrong_table(const char* schedule) {
  throw_error({"the table of ", schedule, " is wrong: its programs would not end"},
              {"correct the first fault that check_timetable returns"});
}

/// Ignores every event.
struct no_witness {
  constexpr void operator()(const instruction&, std::int64_t, std::int64_t) const {}
};

/// Simulates the times of all programs. A send takes no time in the sender: a link transfers one micro-batch after the
/// other in each direction, while its workers compute. A receive waits until its micro-batch has arrived.
template <scheduler Schedule, class Witness>
class simulator {
 public:
  constexpr simulator(const Schedule& schedule, const simulation_input& input, const simulation_report& details,
                      const Witness& witness)
      : programs_(schedule, input.stages, input.micro_batches, input.recompute, input.links, input.link_count,
                  input.sends),
        input_(input),
        details_(details),
        witness_(witness),
        workers_(programs_.workers()),
        counts_(3 * workers_ + 4 * input.link_count + input.stages),
        times_(2 * workers_ + 2 * input.link_count * (input.micro_batches + 1)) {
    position_ = counts_.data();
    awaited_channel_ = position_ + workers_;
    ready_ = awaited_channel_ + workers_;
    sent_ = ready_ + workers_;
    received_ = sent_ + 2 * input.link_count;
    held_ = received_ + 2 * input.link_count;
    clock_ = times_.data();
    busy_ = clock_ + workers_;
    free_ = busy_ + workers_;
    arrival_ = free_ + 2 * input.link_count;
  }

  constexpr std::int64_t run() {
    for (int s = 0; details_.peak_stash && s < input_.stages; ++s) details_.peak_stash[s] = 0;
    int ready = 0;
    for (int w = workers_ - 1; w >= 0; --w) ready_[ready++] = w;
    while (ready > 0) {
      const int w = ready_[--ready];
      const program_view& program = programs_.views()[w];
      awaited_channel_[w] = -1;
      for (; position_[w] < program.length; ++position_[w]) {
        const instruction& action = program.lines[position_[w]];
        if (is_receive(action.kind)) {
          const int channel = 2 * action.link + (action.kind == action_kind::receive_gradient);
          if (received_[channel] == sent_[channel]) {
            awaited_channel_[w] = channel;
            break;
          }
          const std::int64_t arrived = arrival_[channel * input_.micro_batches + received_[channel]++];
          if (arrived > clock_[w]) clock_[w] = arrived;
        } else if (is_send(action.kind)) {
          const bool back = action.kind == action_kind::send_gradient;
          const int channel = 2 * action.link + back;
          send(channel, clock_[w],
               !input_.transfers ? 0
               : back            ? input_.transfers[action.link].back
                                 : input_.transfers[action.link].forward);
          const stage_link& link = input_.links[action.link];
          const int peer = programs_.worker_of(back ? link.source : link.target);
          if (awaited_channel_[peer] == channel) {
            awaited_channel_[peer] = -1;
            ready_[ready++] = peer;
          }
        } else if (action.micro_batch >= 0) {
          const std::int64_t time = time_of(action);
          witness_(action, clock_[w], clock_[w] + time);
          clock_[w] += time;
          busy_[w] += time;
          count_stash(action);
        }
      }
    }
    std::int64_t makespan = 0;
    for (int w = 0; w < workers_; ++w)
      if (clock_[w] > makespan) makespan = clock_[w];
    for (int w = 0; details_.idle && w < workers_; ++w) details_.idle[w] = makespan - busy_[w];
    return makespan;
  }

 private:
  constexpr void send(int channel, std::int64_t ready_time, std::int64_t time) {
    if (free_[channel] < ready_time) free_[channel] = ready_time;
    free_[channel] += time;
    arrival_[channel * input_.micro_batches + sent_[channel]++] = free_[channel];
  }

  // change: an action
  constexpr std::int64_t time_of(const instruction& action) const {
    const stage_times& times = input_.times[action.stage];
    return action.kind == action_kind::forward               ? times.forward
           : action.kind == action_kind::recompute           ? (times.recompute < 0 ? times.forward : times.recompute)
           : action.kind == action_kind::backward_input      ? times.backward_input
           : action.kind == action_kind::backward_parameters ? times.backward_parameters
                                                             : times.backward_input + times.backward_parameters;
  }

  constexpr void count_stash(const instruction& action) {
    int& held = held_[action.stage];
    if (action.kind == action_kind::forward) {
      ++held;
      if (details_.peak_stash && held > details_.peak_stash[action.stage]) details_.peak_stash[action.stage] = held;
    }
    if (action.kind == (programs_.trains() ? action_kind::backward_parameters : action_kind::forward) ||
        action.kind == action_kind::backward)
      --held;
  }

  const step_programs<Schedule> programs_;
  const simulation_input input_;
  const simulation_report details_;
  const Witness& witness_;
  const int workers_;
  const zeroed_array<int> counts_;          // the memory of all arrays of int below
  const zeroed_array<std::int64_t> times_;  // the memory of the others

  // Per worker: the current line, the channel that the worker waits for; a stack of the workers that may continue.
  int *position_ = nullptr, *awaited_channel_ = nullptr, *ready_ = nullptr;
  int *sent_ = nullptr, *received_ = nullptr;        // per channel
  int* held_ = nullptr;                              // per stage
  std::int64_t *clock_ = nullptr, *busy_ = nullptr;  // per worker: the present time, the time spent computing
  std::int64_t *free_ = nullptr,
               *arrival_ = nullptr;  // per channel: the time from which it is free; and per micro-batch
};

}  // namespace detail

/// The length of a step, in the unit of its times: runs the programs that `lower` makes, each worker as soon as it can.
/// Transfers overlap with computing and queue on their link; `reduce` and `update` take no time. Parameter gradients
/// that are computed together take as long as one by one.
///
/// Calls `witness(instruction, begin, end)` for every computation, in order for each worker.
///
/// Throws as `step_programs` does, for a wrong table, and for times that are negative or overflow.
template <scheduler Schedule, class Witness = detail::no_witness>
GPIPE_COLD constexpr std::int64_t simulate(const Schedule& schedule, const simulation_input& input,
                                           const simulation_report& details = {}, const Witness& witness = {}) {
  if (!check_timetable(schedule, input.stages, input.micro_batches, input.links, input.link_count).ok())
    detail::wrong_table(schedule.name());
  detail::require_times(input);
  return detail::simulator<Schedule, Witness>(schedule, input, details, witness).run();
}

template <class Witness = detail::no_witness>
constexpr std::int64_t simulate(schedule_choice chosen, const simulation_input& input,
                                const simulation_report& details = {}, const Witness& witness = {}) {
  return simulate<schedule_choice, Witness>(chosen, input, details, witness);
}

}  // namespace gpipe
