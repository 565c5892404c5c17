#pragma once

#include <gpipe/core/error.hpp>
#include <gpipe/plan/program/lower.hpp>
#include <gpipe/plan/schedule/action.hpp>
#include <gpipe/plan/timetable/recompute.hpp>

#include <cstdint>
#include <initializer_list>
#include <limits>

namespace gpipe {

/// How long a stage takes with a micro-batch, in any unit.
struct stage_times {
  std::int64_t forward = 0, backward_input = 0, backward_parameters = 0;
  std::int64_t recompute = -1;  ///< negative: as long as forward
};

/// How long a micro-batch is on the way over a link, and its gradient on the way back.
struct link_times {
  std::int64_t forward = 0, back = 0;
};

/// What is to be simulated. The arrays belong to the caller and have an element for each stage, or for each link.
struct simulation_terms {
  int stages = 1, micro_batches = 1;
  recompute_choice recompute{};
  const stage_times* times = nullptr;
  const link* links = nullptr;
  int link_count = 0;
  const link_times* transfers = nullptr;  ///< none: they take no time
  send_mode sends = send_mode::buffered;
};

/// What a simulation tells besides, where the caller wants to know.
struct simulation_details {
  std::int64_t* idle = nullptr;  ///< of each worker: from the step's begin to its end
  int* peak_stash = nullptr;     ///< of each stage: the most micro-batches whose inputs it holds at once
};

namespace detail {

[[noreturn]] GPIPE_ONCE inline void bad_times(const char* what, int index) {
  refuse({what, " ", index, " takes a negative time"}, {"give times of zero or more"});
}
[[noreturn]] GPIPE_ONCE inline void times_overflow() {
  refuse({"the times of a step add up to more than 64 bits hold"}, {"give them in a larger unit"});
}

/// Refuses times whose sum over a whole step overflows: no time in the simulation is larger than that sum.
constexpr void require_times(const simulation_terms& t) {
  std::int64_t room = (std::numeric_limits<std::int64_t>::max)() / t.micro_batches;
  const auto take = [&room](std::int64_t time, const char* what, int index) {
    if (time < 0) bad_times(what, index);
    if (time > room) times_overflow();
    room -= time;
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

}  // namespace detail
}  // namespace gpipe
