#pragma once

#include <gpipe/plan/schedule/contract/scheduler.hpp>

namespace gpipe {

namespace detail {

/// The arguments from which `schedule_functions` construct a schedule.
struct schedule_parameters {
  const void* object = nullptr;
  int chunks = 2;
  warmup_kind warmup = warmup_kind::automatic;

  constexpr bool operator==(const schedule_parameters&) const = default;
};

/// The members of a schedule's type.
struct schedule_functions {
  using parameters = const schedule_parameters&;

  const char* (*name)(parameters);
  bool (*admits)(parameters, int, int);
  int (*workers)(parameters, int);
  int (*worker_of)(parameters, int, int);
  int (*ticks)(parameters, int, int);
  int (*in_flight)(parameters, int, int, int);
  cell (*at)(parameters, int, int, int, int);
  bool splits;  ///< the type says that backward comes in two parts
};

/// `Make` returns the schedule, or a reference to it.
template <scheduler Schedule, auto Make>
inline constexpr schedule_functions schedule_functions_by{
    [](const schedule_parameters& parameters) { return Make(parameters).name(); },
    [](const schedule_parameters& parameters, int S, int M) { return Make(parameters).admits(S, M); },
    [](const schedule_parameters& parameters, int S) { return Make(parameters).workers(S); },
    [](const schedule_parameters& parameters, int S, int stage) { return Make(parameters).worker_of(S, stage); },
    [](const schedule_parameters& parameters, int S, int M) { return Make(parameters).ticks(S, M); },
    [](const schedule_parameters& parameters, int S, int M, int stage) {
      return Make(parameters).in_flight(S, M, stage);
    },
    [](const schedule_parameters& parameters, int S, int M, int worker, int tick) {
      return Make(parameters).at(S, M, worker, tick);
    },
    [] {
      if constexpr (requires { Schedule::splits; }) return bool{Schedule::splits};
      else return false;
    }()};

/// The functions of no schedule: it admits nothing.
inline constexpr schedule_functions no_schedule_functions{
    [](const schedule_parameters&) { return "no schedule"; },
    [](const schedule_parameters&, int, int) { return false; },
    [](const schedule_parameters&, int) { return 0; },
    [](const schedule_parameters&, int, int) { return 0; },
    [](const schedule_parameters&, int, int) { return 0; },
    [](const schedule_parameters&, int, int, int) { return 0; },
    [](const schedule_parameters&, int, int, int, int) { return cell{}; },
    false};

}  // namespace detail

/// A schedule without its type, so that the code that runs it is compiled once. It is itself a schedule.
struct custom_schedule {
  const detail::schedule_functions* functions = &detail::no_schedule_functions;
  detail::schedule_parameters parameters{};
  bool trains = true;

  constexpr const char* name() const { return functions->name(parameters); }
  constexpr bool admits(int S, int M) const { return functions->admits(parameters, S, M); }
  constexpr int workers(int S) const { return functions->workers(parameters, S); }
  constexpr int worker_of(int S, int stage) const { return functions->worker_of(parameters, S, stage); }
  constexpr int ticks(int S, int M) const { return functions->ticks(parameters, S, M); }
  constexpr int in_flight(int S, int M, int stage) const { return functions->in_flight(parameters, S, M, stage); }
  constexpr cell at(int S, int M, int worker, int tick) const { return functions->at(parameters, S, M, worker, tick); }

  constexpr bool operator==(const custom_schedule&) const = default;
};

static_assert(scheduler<custom_schedule>);

namespace detail {

template <class Schedule>
constexpr Schedule default_schedule(const schedule_parameters&) {
  return Schedule{};
}
template <class Schedule>
const Schedule& schedule_object(const schedule_parameters& parameters) {
  return *static_cast<const Schedule*>(parameters.object);
}

}  // namespace detail

/// A default-constructed `Schedule` as a custom schedule.
template <scheduler Schedule>
inline constexpr custom_schedule custom_schedule_of{
    &detail::schedule_functions_by<Schedule, &detail::default_schedule<Schedule>>, {}, Schedule{}.trains};

/// An object as a custom schedule at run time, such as a `schedule_table`. It must outlive every use.
template <scheduler Schedule>
custom_schedule custom_schedule_from(const Schedule& object) {
  return {&detail::schedule_functions_by<Schedule, &detail::schedule_object<Schedule>>, {&object}, object.trains};
}
template <scheduler Schedule>
custom_schedule custom_schedule_from(const Schedule&&) = delete;

}  // namespace gpipe
