#pragma once

#include <gpipe/core/error.hpp>
#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/plan/program/lower.hpp>
#include <gpipe/plan/schedule/any_schedule.hpp>
#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/plan/stages/link.hpp>
#include <gpipe/plan/timetable/check.hpp>
#include <gpipe/plan/timetable/recompute.hpp>
#include <gpipe/plan/timetable/tick_index.hpp>

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

/// The input of a simulation. The arrays belong to the caller and have an element for each stage, or for each link.
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
  std::int64_t* idle = nullptr;  ///< of each worker: from the step's begin to its end
  int* peak_stash = nullptr;     ///< of each stage: the maximum number of micro-batches whose inputs it holds
};

namespace detail {

[[noreturn]] GPIPE_COLD inline void bad_times(const char* what, int index) {
  throw_error({what, " ", index, " has a negative time"}, {"give times of zero or more"});
}
[[noreturn]] GPIPE_COLD inline void times_overflow() {
  throw_error({"the sum of a step's times overflows 64 bits"}, {"give them in a larger unit"});
}

/// Throws if the sum of times over a whole step overflows: no time in the simulation is larger than this sum.
constexpr void require_times(const simulation_input& t) {
  std::int64_t left = (std::numeric_limits<std::int64_t>::max)() / t.micro_batches;
  const auto take = [&left](std::int64_t time, const char* what, int index) {
    if (time < 0) bad_times(what, index);
    if (time > left) times_overflow();
    left -= time;
  };
  for (int s = 0; s < t.stages; ++s) {
    const stage_times& of = t.times[s];
    for (const std::int64_t time :
         {of.forward, of.backward_input, of.backward_parameters, of.recompute < 0 ? of.forward : of.recompute})
      take(time, "stage", s);
  }
  for (int i = 0; t.transfers && i < t.link_count; ++i)
    for (const std::int64_t time : {t.transfers[i].forward, t.transfers[i].back}) take(time, "link", i);
}

[[noreturn]] GPIPE_COLD inline void wrong_table(const char* schedule) {
  throw_error({"the table of ", schedule, " is wrong: its programs would not end"},
              {"correct the first fault that check_timetable returns"});
}

/// Ignores every event.
struct no_witness {
  constexpr void operator()(const instruction&, std::int64_t, std::int64_t) const {}
};

/// Simulates the times of all programs. A send takes no time of the sender: a link transfers one micro-batch after the
/// other in each direction, while its workers compute. A receive waits until its micro-batch has arrived.
template <scheduler Schedule, class Witness>
class simulator {
 public:
  constexpr simulator(const Schedule& schedule, const simulation_input& terms, const simulation_report& details,
                      const Witness& witness)
      : schedule_(schedule),
        t_(terms),
        details_(details),
        witness_(witness),
        workers_(schedule.workers(terms.stages)),
        lines_(4 * terms.micro_batches * (terms.stages + terms.link_count) + 2 * terms.stages),
        counts_(4 * workers_ + 1 + 4 * terms.link_count + terms.stages),
        times_(2 * workers_ + 2 * terms.link_count * (terms.micro_batches + 1)) {
    begin_ = counts_.data();
    at_ = begin_ + workers_ + 1;
    awaited_ = at_ + workers_;
    ready_ = awaited_ + workers_;
    sent_ = ready_ + workers_;
    received_ = sent_ + 2 * terms.link_count;
    held_ = received_ + 2 * terms.link_count;
    now_ = times_.data();
    busy_ = now_ + workers_;
    free_ = busy_ + workers_;
    arrival_ = free_ + 2 * terms.link_count;
    lower_all();
  }

  constexpr std::int64_t run() {
    for (int s = 0; details_.peak_stash && s < t_.stages; ++s) details_.peak_stash[s] = 0;
    int ready = 0;
    for (int w = workers_ - 1; w >= 0; --w) ready_[ready++] = w;
    while (ready > 0) {
      const int w = ready_[--ready];
      awaited_[w] = -1;
      for (; at_[w] < begin_[w + 1]; ++at_[w]) {
        const instruction& it = lines_[at_[w]];
        if (is_receive(it.kind)) {
          const int channel = 2 * it.link + (it.kind == action_kind::receive_gradient);
          if (received_[channel] == sent_[channel]) {
            awaited_[w] = channel;
            break;
          }
          const std::int64_t arrived = arrival_[channel * t_.micro_batches + received_[channel]++];
          if (arrived > now_[w]) now_[w] = arrived;
        } else if (is_send(it.kind)) {
          const bool back = it.kind == action_kind::send_gradient;
          const int channel = 2 * it.link + back;
          send(channel, now_[w], !t_.transfers ? 0 : back ? t_.transfers[it.link].back : t_.transfers[it.link].forward);
          const stage_link& over = t_.links[it.link];
          const int peer = schedule_.worker_of(t_.stages, back ? over.from : over.to);
          if (awaited_[peer] == channel) {
            awaited_[peer] = -1;
            ready_[ready++] = peer;
          }
        } else if (it.micro_batch >= 0) {
          const std::int64_t time = time_of(it);
          witness_(it, now_[w], now_[w] + time);
          now_[w] += time;
          busy_[w] += time;
          count_stash(it);
        }
      }
    }
    std::int64_t makespan = 0;
    for (int w = 0; w < workers_; ++w)
      if (now_[w] > makespan) makespan = now_[w];
    for (int w = 0; details_.idle && w < workers_; ++w) details_.idle[w] = makespan - busy_[w];
    return makespan;
  }

 private:
  constexpr void lower_all() {
    tick_index<Schedule> table(schedule_, t_.stages, t_.micro_batches);
    const zeroed_array<bool> recomputed(t_.stages * t_.micro_batches);
    for (int s = 0; s < t_.stages; ++s)
      flag_recomputing(table, t_.recompute, s, recomputed.data() + s * t_.micro_batches);
    int length = 0;
    for (int w = 0; w < workers_; ++w) {
      begin_[w] = at_[w] = length;
      lower_worker(
          table, recomputed.data(), t_.links, t_.link_count, w, [&](const instruction& it) { lines_[length++] = it; },
          t_.sends);
    }
    begin_[workers_] = length;
  }

  constexpr void send(int channel, std::int64_t now, std::int64_t time) {
    if (free_[channel] < now) free_[channel] = now;
    free_[channel] += time;
    arrival_[channel * t_.micro_batches + sent_[channel]++] = free_[channel];
  }

  constexpr std::int64_t time_of(const instruction& it) const {
    const stage_times& of = t_.times[it.stage];
    return it.kind == action_kind::forward               ? of.forward
           : it.kind == action_kind::recompute           ? (of.recompute < 0 ? of.forward : of.recompute)
           : it.kind == action_kind::backward_input      ? of.backward_input
           : it.kind == action_kind::backward_parameters ? of.backward_parameters
                                                         : of.backward_input + of.backward_parameters;
  }

  constexpr void count_stash(const instruction& it) {
    int& held = held_[it.stage];
    if (it.kind == action_kind::forward) {
      ++held;
      if (details_.peak_stash && held > details_.peak_stash[it.stage]) details_.peak_stash[it.stage] = held;
    }
    if (it.kind == (schedule_.trains ? action_kind::backward_parameters : action_kind::forward) ||
        it.kind == action_kind::backward)
      --held;
  }

  const Schedule schedule_;
  const simulation_input t_;
  const simulation_report details_;
  const Witness& witness_;
  const int workers_;
  const zeroed_array<instruction> lines_;
  const zeroed_array<int> counts_;          // of all arrays below
  const zeroed_array<std::int64_t> times_;  // likewise

  // Of each worker: the begin of its program (and the last one's end), its line, the channel that it waits for; a stack
  // of the workers that may continue.
  int *begin_ = nullptr, *at_ = nullptr, *awaited_ = nullptr, *ready_ = nullptr;
  int *sent_ = nullptr, *received_ = nullptr;          // of each channel
  int* held_ = nullptr;                                // of each stage
  std::int64_t *now_ = nullptr, *busy_ = nullptr;      // of each worker
  std::int64_t *free_ = nullptr, *arrival_ = nullptr;  // of each channel, and of each of its micro-batches
};

}  // namespace detail

/// The length of a step, in the unit of its times: runs the programs that `lower` makes, each worker as soon as it can.
/// Transfers overlap with computing and queue on their link; `reduce` and `update` take no time. Parameter gradients
/// that are computed together take as long as one by one.
///
/// Calls `witness(instruction, begin, end)` for every computation, in order for each worker.
///
/// Throws as `lower` does, for a wrong table, and for times that are negative or overflow.
template <scheduler Schedule, class Witness = detail::no_witness>
GPIPE_COLD constexpr std::int64_t simulate(const Schedule& schedule, const simulation_input& terms,
                                           const simulation_report& details = {}, const Witness& witness = {}) {
  if (!check_timetable(schedule, terms.stages, terms.micro_batches, terms.links, terms.link_count).ok())
    detail::wrong_table(schedule.name());
  detail::require_times(terms);
  return detail::simulator<Schedule, Witness>(schedule, terms, details, witness).run();
}

template <class Witness = detail::no_witness>
constexpr std::int64_t simulate(schedule_choice chosen, const simulation_input& terms,
                                const simulation_report& details = {}, const Witness& witness = {}) {
  return simulate<schedule_choice, Witness>(chosen, terms, details, witness);
}

}  // namespace gpipe
