#pragma once

#include <gpipe/plan/schedule/contract/scheduler.hpp>

namespace gpipe {

/// A custom schedule without its type, so that the code that runs it is compiled once. It is itself a schedule.
struct custom_schedule {
  const void* object = nullptr;  ///< for the functions; null: each makes its own
  const char* (*name_)(const void*) = nullptr;
  bool (*admits_)(const void*, int, int) = nullptr;
  int (*workers_)(const void*, int) = nullptr;
  int (*worker_of_)(const void*, int, int) = nullptr;
  int (*ticks_)(const void*, int, int) = nullptr;
  int (*in_flight_)(const void*, int, int, int) = nullptr;
  cell (*at_)(const void*, int, int, int, int) = nullptr;
  bool trains = true;

  constexpr const char* name() const { return name_(object); }
  constexpr bool admits(int S, int M) const { return admits_(object, S, M); }
  constexpr int workers(int S) const { return workers_(object, S); }
  constexpr int worker_of(int S, int stage) const { return worker_of_(object, S, stage); }
  constexpr int ticks(int S, int M) const { return ticks_(object, S, M); }
  constexpr int in_flight(int S, int M, int stage) const { return in_flight_(object, S, M, stage); }
  constexpr cell at(int S, int M, int worker, int tick) const { return at_(object, S, M, worker, tick); }

  constexpr bool operator==(const custom_schedule&) const = default;
};

static_assert(scheduler<custom_schedule>);

namespace detail {

template <scheduler Schedule, auto Get>
constexpr custom_schedule custom_schedule_by(const void* object, bool trains) {
  return {object,
          [](const void* of) { return Get(of).name(); },
          [](const void* of, int S, int M) { return Get(of).admits(S, M); },
          [](const void* of, int S) { return Get(of).workers(S); },
          [](const void* of, int S, int stage) { return Get(of).worker_of(S, stage); },
          [](const void* of, int S, int M) { return Get(of).ticks(S, M); },
          [](const void* of, int S, int M, int stage) { return Get(of).in_flight(S, M, stage); },
          [](const void* of, int S, int M, int worker, int tick) { return Get(of).at(S, M, worker, tick); },
          trains};
}

}  // namespace detail

/// A default-constructed `Schedule` as a custom schedule.
template <scheduler Schedule>
inline constexpr custom_schedule custom_schedule_of =
    detail::custom_schedule_by<Schedule, [](const void*) { return Schedule{}; }>(nullptr, Schedule{}.trains);

/// An object as a custom schedule at run time, such as a `schedule_table`. It must outlive every use.
template <scheduler Schedule>
custom_schedule custom_schedule_from(const Schedule& object) {
  constexpr auto get = [](const void* of) -> const Schedule& { return *static_cast<const Schedule*>(of); };
  return detail::custom_schedule_by<Schedule, get>(&object, object.trains);
}
template <scheduler Schedule>
custom_schedule custom_schedule_from(const Schedule&&) = delete;

}  // namespace gpipe
