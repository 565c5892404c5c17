#pragma once

// Shared by the laws of schedules: links between stages, the shipped schedules, their programs, tables with faults.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include <gpipe/plan/program/step_programs.hpp>
#include <gpipe/plan/schedule/any_schedule.hpp>
#include <gpipe/plan/timetable/check.hpp>
#include <gpipe/plan/timetable/slot_assignment.hpp>

namespace schedules {

using namespace gpipe;
using namespace gpipe::detail;

/// The most inputs for which a worker's stages have memory together.
template <class Schedule>
int most_in_flight(const Schedule& schedule, int S, int M) {
  std::vector<int> of(static_cast<std::size_t>(schedule.workers(S)));
  for (int s = 0; s < S; ++s) of[static_cast<std::size_t>(schedule.worker_of(S, s))] += schedule.in_flight(S, M, s);
  return *std::max_element(of.begin(), of.end());
}

/// Links between neighbours, a skip over the whole pipeline, two skips that cross, and a link without a gradient.
struct linked_stages {
  stage_link links[16] = {};
  int count = 0;

  constexpr explicit linked_stages(int stages, bool skips = true) {
    const auto add = [this](stage_link it) { links[count++] = it; };
    for (int from = 0; from + 1 < stages; ++from) {
      add({from, from + 1});
      if (skips && from == 1 && stages > 3) add({1, 3});
      if (skips && from == 2 && stages > 4) add({2, 4, false});
      if (skips && from == 0 && stages > 2) add({0, stages - 1});
    }
  }
};

// change: a recompute mode
inline constexpr recompute_mode modes[] = {recompute_mode::always, recompute_mode::except_last, recompute_mode::never,
                                           recompute_mode::as_needed};
// change: a schedule
inline constexpr schedule_choice choices[] = {schedule_kind::fill_drain,
                                              schedule_kind::one_f_one_b,
                                              {schedule_kind::interleaved, 2},
                                              {schedule_kind::interleaved, 3},
                                              {schedule_kind::interleaved, 4},
                                              interleaved{2, warmup_kind::longest},
                                              interleaved{4, warmup_kind::longest},
                                              {schedule_kind::looped_bfs, 2},
                                              {schedule_kind::looped_bfs, 3},
                                              schedule_kind::zb_h1,
                                              {schedule_kind::interleaved_zb, 2},
                                              {schedule_kind::interleaved_zb, 3},
                                              schedule_kind::zb_v,
                                              schedule_kind::dual_pipe_v,
                                              schedule_kind::v_half,
                                              schedule_kind::v_min,
                                              schedule_kind::zb_2p,
                                              schedule_kind::forward_only};

inline constexpr int choice_count = static_cast<int>(std::size(choices));

constexpr bool admits(schedule_choice choice, int stages, int micro_batches) {
  return with_schedule(choice, [&](auto schedule) { return schedule.admits(stages, micro_batches); });
}

struct programs {
  linked_stages net;
  std::vector<std::vector<instruction>> lines;
  std::vector<int> in_flight, worker_of;
  std::array<bool, 8 * 16> recomputed{};
  expected_step terms;

  template <class Schedule>
  programs(Schedule schedule, int stages, int micro_batches, recompute_mode mode, const linked_stages& over,
           send_mode sends = send_mode::synchronous)
      : net(over) {
    const step_programs<Schedule> made(schedule, stages, micro_batches, mode, net.links, net.count, sends);
    for (int w = 0; w < made.workers(); ++w)
      lines.emplace_back(made.views()[w].lines, made.views()[w].lines + made.views()[w].length);
    terms = made.expected();
    in_flight.assign(terms.in_flight, terms.in_flight + stages);
    worker_of.assign(terms.worker_of, terms.worker_of + stages);
    std::copy_n(terms.recomputed, stages * micro_batches, recomputed.begin());
  }

  check_result run(int memory_slots) {
    terms.links = net.links;
    terms.recomputed = recomputed.data();
    terms.in_flight = in_flight.data();
    terms.worker_of = worker_of.data();
    std::vector<program_view> views;
    for (const auto& program : lines) views.push_back({program.data(), static_cast<int>(program.size())});
    return check(terms, views.data(), static_cast<int>(views.size()), memory_slots);
  }

  /// Explores every order in which at most 4 workers can move. Returns whether all workers end in some order, and
  /// whether they deadlock in some order. A state is the line of each worker; the contents of the channels follow from
  /// the state.
  std::pair<bool, bool> explore(int memory_slots) const {
    const std::size_t workers = lines.size();
    const auto channels = static_cast<std::size_t>(4 * net.count);  // both ends of both ways of each link
    const auto end_of = [](const instruction& it) {
      return static_cast<std::size_t>(4 * it.link + static_cast<int>(it.kind) -
                                      static_cast<int>(action_kind::receive_activation));
    };
    // The number of times that a worker has used each end before each of its lines.
    std::vector<std::vector<int>> used(workers);
    for (std::size_t w = 0; w < workers; ++w) {
      used[w].assign((lines[w].size() + 1) * channels, 0);
      for (std::size_t i = 0; i < lines[w].size(); ++i) {
        for (std::size_t c = 0; c < channels; ++c) used[w][(i + 1) * channels + c] = used[w][i * channels + c];
        if (lines[w][i].link >= 0) ++used[w][(i + 1) * channels + end_of(lines[w][i])];
      }
    }
    using state = std::array<std::uint16_t, 4>;
    const auto packed = [](const state& at) {
      return std::uint64_t{at[0]} | std::uint64_t{at[1]} << 16 | std::uint64_t{at[2]} << 32 |
             std::uint64_t{at[3]} << 48;
    };
    std::unordered_set<std::uint64_t> seen{0};
    std::vector<state> open{state{}};
    bool some_end = false, some_stick = false;
    while (!open.empty()) {
      const state at = open.back();
      open.pop_back();
      bool moves = false, ended = true;
      for (std::size_t w = 0; w < workers; ++w) {
        if (at[w] == lines[w].size()) continue;
        ended = false;
        state next = at;
        ++next[w];
        const instruction& it = lines[w][at[w]];
        if (it.link >= 0) {
          const stage_link& over = net.links[it.link];
          const auto peer = static_cast<std::size_t>(
              worker_of[static_cast<std::size_t>(it.stage == over.source ? over.target : over.source)]);
          const auto mine = end_of(it), other = mine ^ 1u;  // a receive comes before its send
          if (memory_slots == rendezvous) {
            if (at[peer] == lines[peer].size()) continue;
            const instruction& theirs = lines[peer][at[peer]];
            if (theirs.link != it.link || end_of(theirs) != other) continue;
            ++next[peer];
          } else {
            const int here = used[w][at[w] * channels + mine], there = used[peer][at[peer] * channels + other];
            if (is_send(it.kind) ? here - there >= memory_slots : there == here) continue;
          }
        }
        moves = true;
        if (seen.insert(packed(next)).second) open.push_back(next);
      }
      some_end = some_end || ended;
      some_stick = some_stick || (!moves && !ended);
    }
    return {some_end, some_stick};
  }
};

inline std::string fault_of(const check_result& found) { return name_of(found.error); }

/// The table of a schedule, which a test then changes.
struct edited {
  static constexpr bool trains = true;
  std::vector<std::vector<cell>> rows;
  std::vector<int> worker, room;

  template <class Schedule>
  edited(Schedule schedule, int S, int M) : rows(static_cast<std::size_t>(schedule.workers(S))) {
    for (int w = 0; w < schedule.workers(S); ++w)
      for (int t = 0; t < schedule.ticks(S, M); ++t)
        rows[static_cast<std::size_t>(w)].push_back(schedule.at(S, M, w, t));
    for (int s = 0; s < S; ++s) {
      worker.push_back(schedule.worker_of(S, s));
      room.push_back(schedule.in_flight(S, M, s));
    }
  }
  static const char* name() { return "edited"; }
  static bool admits(int, int) { return true; }
  int workers(int) const { return static_cast<int>(rows.size()); }
  int worker_of(int, int stage) const { return worker[static_cast<std::size_t>(stage)]; }
  int ticks(int, int) const { return static_cast<int>(rows[0].size()); }
  int in_flight(int, int, int stage) const { return room[static_cast<std::size_t>(stage)]; }
  cell at(int, int, int w, int t) const { return rows[static_cast<std::size_t>(w)][static_cast<std::size_t>(t)]; }
};
static_assert(scheduler<edited>);

}  // namespace schedules
