#pragma once

#include <gpipe/plan/schedule/scheduler.hpp>

namespace gpipe {

/// A custom schedule without its type, so that the code that runs it is compiled once. It is itself a schedule.
struct custom_schedule {
  const char* (*name_)() = nullptr;
  bool (*admits_)(int, int) = nullptr;
  int (*workers_)(int) = nullptr;
  int (*worker_of_)(int, int) = nullptr;
  int (*ticks_)(int, int) = nullptr;
  int (*in_flight_)(int, int, int) = nullptr;
  cell (*at_)(int, int, int, int) = nullptr;
  bool trains = true;

  constexpr const char* name() const { return name_(); }
  constexpr bool admits(int S, int M) const { return admits_(S, M); }
  constexpr int workers(int S) const { return workers_(S); }
  constexpr int worker_of(int S, int stage) const { return worker_of_(S, stage); }
  constexpr int ticks(int S, int M) const { return ticks_(S, M); }
  constexpr int in_flight(int S, int M, int stage) const { return in_flight_(S, M, stage); }
  constexpr cell at(int S, int M, int worker, int tick) const { return at_(S, M, worker, tick); }

  constexpr bool operator==(const custom_schedule&) const = default;
};

static_assert(scheduler<custom_schedule>);

/// A default-constructed `Schedule` as a custom schedule.
template <scheduler Schedule>
inline constexpr custom_schedule custom_schedule_of{
    [] { return Schedule{}.name(); },
    [](int S, int M) { return Schedule{}.admits(S, M); },
    [](int S) { return Schedule{}.workers(S); },
    [](int S, int stage) { return Schedule{}.worker_of(S, stage); },
    [](int S, int M) { return Schedule{}.ticks(S, M); },
    [](int S, int M, int stage) { return Schedule{}.in_flight(S, M, stage); },
    [](int S, int M, int worker, int tick) { return Schedule{}.at(S, M, worker, tick); },
    Schedule{}.trains};

}  // namespace gpipe
