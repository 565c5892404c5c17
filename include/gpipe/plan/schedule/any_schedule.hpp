#pragma once

#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/plan/schedule/contract/scheduler.hpp>
#include <gpipe/plan/schedule/custom.hpp>
#include <gpipe/plan/schedule/dual_pipe_v.hpp>
#include <gpipe/plan/schedule/fill_drain.hpp>
#include <gpipe/plan/schedule/folded.hpp>
#include <gpipe/plan/schedule/forward_only.hpp>
#include <gpipe/plan/schedule/interleaved.hpp>
#include <gpipe/plan/schedule/interleaved_zb.hpp>
#include <gpipe/plan/schedule/looped_bfs.hpp>
#include <gpipe/plan/schedule/one_f_one_b.hpp>
#include <gpipe/plan/schedule/v_half.hpp>
#include <gpipe/plan/schedule/v_min.hpp>
#include <gpipe/plan/schedule/zb_2p.hpp>
#include <gpipe/plan/schedule/zb_h1.hpp>
#include <gpipe/plan/schedule/zb_v.hpp>

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

namespace gpipe {

// change: a schedule; in the order of schedule_kind
/// The types of the built-in schedules.
using schedule_types = std::tuple<fill_drain, one_f_one_b, interleaved, looped_bfs, zb_h1, interleaved_zb, zb_v,
                                  dual_pipe_v, v_half, v_min, zb_2p, forward_only>;

/// Their kinds.
inline constexpr auto schedule_kinds = [] {
  std::array<schedule_kind, std::tuple_size_v<schedule_types>> kinds{};
  for (std::size_t i = 0; i < kinds.size(); ++i) kinds[i] = static_cast<schedule_kind>(i);
  return kinds;
}();
static_assert(schedule_kinds.size() == static_cast<std::size_t>(schedule_kind::custom));

namespace detail {

/// A searched table has the placement of ZB-V, two stages per worker as a V, or of ZB-H1, one stage per worker. Until a
/// plan has found the table, these schedules replace it.
constexpr schedule_kind known_kind(schedule_kind kind, int chunks) {
  if (kind != schedule_kind::searched) return kind;
  return chunks == 1 ? schedule_kind::zb_h1 : schedule_kind::zb_v;
}

template <schedule_kind Kind>
using schedule_of_kind = std::tuple_element_t<static_cast<std::size_t>(Kind), schedule_types>;

/// A built-in schedule with its parameters.
template <class Schedule>
constexpr Schedule schedule_with(const schedule_parameters& parameters) {
  if constexpr (requires { Schedule{parameters.chunks, parameters.warmup}; })
    return Schedule{parameters.chunks, parameters.warmup};
  else if constexpr (requires { Schedule{parameters.chunks}; }) return Schedule{parameters.chunks};
  else return Schedule{};
}

/// Calls `use` with an object of the type of a built-in kind.
template <std::size_t First = 0, class Use>
constexpr decltype(auto) with_kind(schedule_kind kind, const schedule_parameters& parameters, Use&& use) {
  if constexpr (First + 1 < schedule_kinds.size())
    if (kind != schedule_kinds[First]) return with_kind<First + 1>(kind, parameters, std::forward<Use>(use));
  return std::forward<Use>(use)(schedule_with<std::tuple_element_t<First, schedule_types>>(parameters));
}

/// The kind of a schedule's type; `custom`: it is not built in.
template <class Schedule>
constexpr schedule_kind kind_of_schedule() {
  schedule_kind found = schedule_kind::custom;
  for (const schedule_kind kind : schedule_kinds)
    with_kind(kind, {}, [&]<class Known>(const Known&) {
      if (std::is_same_v<Known, Schedule>) found = kind;
    });
  return found;
}

/// Whether `chunks` is a choice: the schedule has any number of stages per worker.
constexpr bool has_chunks(schedule_kind kind) {
  if (kind == schedule_kind::custom) return false;
  return with_kind(known_kind(kind, 2), {}, []<class Schedule>(const Schedule&) {
    return requires { Schedule{2}; };
  });
}

/// The functions of the built-in schedules, [kind].
inline constexpr auto functions_of_kinds = []<class... Types>(std::type_identity<std::tuple<Types...>>) {
  return std::array{&schedule_functions_by<Types, &schedule_with<Types>>...};
}(std::type_identity<schedule_types>{});

constexpr const schedule_functions* functions_of(schedule_kind kind, int chunks) {
  if (kind == schedule_kind::custom) return &no_schedule_functions;
  return functions_of_kinds[static_cast<std::size_t>(known_kind(kind, chunks))];
}

}  // namespace detail

/// A kind with its parameters. It is itself a schedule: the chosen one, folded onto `onto` workers. Code for any
/// schedule is compiled once for all run-time choices.
struct schedule_choice {
  schedule_kind kind = schedule_kind::fill_drain;
  int chunks = 2;                               ///< stages per worker, for the schedules that have such a number
  warmup_kind warmup = warmup_kind::automatic;  ///< of the interleaved schedule
  const custom_schedule* custom = nullptr;      ///< for schedule_kind::custom
  bool trains = true, splits = false;
  int onto = 0;  ///< number of workers; 0: not folded

  constexpr schedule_choice(schedule_kind k = schedule_kind::fill_drain, int chunk_count = 2)
      : kind(k),
        chunks(chunk_count),
        trains(k != schedule_kind::forward_only),
        functions(detail::functions_of(k, chunk_count)) {
    splits = functions->splits;
  }
  /// Interleaved, with its warm-up.
  constexpr schedule_choice(const interleaved& schedule)
      : schedule_choice(schedule_kind::interleaved, schedule.chunks) {
    warmup = schedule.warmup;
  }
  constexpr schedule_choice(const custom_schedule& users, bool split)
      : kind(schedule_kind::custom), custom(&users), trains(users.trains), splits(split), functions(users.functions) {}

  /// The forwards of the schedule alone, in the same order: evaluation on the same workers.
  constexpr schedule_choice forwards() const {
    schedule_choice alone = *this;
    alone.trains = alone.splits = false;
    return alone;
  }
  /// The same schedule on at most `count` workers; 0: not folded.
  constexpr schedule_choice on_workers(int count) const {
    schedule_choice fewer = *this;
    fewer.onto = count;
    return fewer;
  }

  /// Calls `use` with an object of the schedule's type, without the fold.
  template <class Use>
  constexpr decltype(auto) with(Use&& use) const {
    if (kind == schedule_kind::custom) return std::forward<Use>(use)(*custom);
    return detail::with_kind(detail::known_kind(kind, chunks), {nullptr, chunks, warmup}, std::forward<Use>(use));
  }

  GPIPE_COLD constexpr const char* name() const { return whole().name(); }
  GPIPE_COLD constexpr bool admits(int S, int M) const { return whole().admits(S, M); }
  GPIPE_COLD constexpr int workers(int S) const { return folded{whole(), onto}.workers(S); }
  GPIPE_COLD constexpr int worker_of(int S, int stage) const { return folded{whole(), onto}.worker_of(S, stage); }
  GPIPE_COLD constexpr int ticks(int S, int M) const { return folded{whole(), onto}.ticks(S, M); }
  GPIPE_COLD constexpr int in_flight(int S, int M, int stage) const {
    return trains ? whole().in_flight(S, M, stage) : 1;
  }
  GPIPE_COLD constexpr cell at(int S, int M, int worker, int tick) const {
    const cell found = folded{whole(), onto}.at(S, M, worker, tick);
    return trains || found.kind == action_kind::forward ? found : cell{};
  }

  // -1: the schedule has no formula; a folded schedule has other ticks.
  GPIPE_COLD constexpr int stash_slots(int S, int M, int writer, int reader, int late = 0) const {
    if (onto > 0) return -1;
    if (kind == schedule_kind::fill_drain && trains) return fill_drain::stash_slots(S, M, writer, reader, late);
    return kind == schedule_kind::one_f_one_b && trains ? one_f_one_b::stash_slots(S, M, writer, reader, late) : -1;
  }
  GPIPE_COLD constexpr int returned_slots(int S, int M, int writer, int reader, int late = 0,
                                          int group_gradients = 1) const {
    if (onto > 0 || !trains) return -1;
    if (kind == schedule_kind::fill_drain)
      return fill_drain::returned_slots(S, M, writer, reader, late, group_gradients);
    if (kind != schedule_kind::one_f_one_b || group_gradients > 1) return -1;
    return one_f_one_b::returned_slots(S, M, writer, reader, late);
  }

  const detail::schedule_functions* functions;  // of the kind, or of the custom schedule

 private:
  constexpr custom_schedule whole() const {
    return custom != nullptr ? *custom : custom_schedule{functions, {nullptr, chunks, warmup}};
  }
};

/// Calls `use` with an object of the chosen schedule's type.
template <class Use>
constexpr decltype(auto) with_schedule(schedule_choice choice, Use&& use) {
  return choice.with(std::forward<Use>(use));
}

static_assert(scheduler<schedule_choice>);

/// Stages of each worker, for the schedules that can have that number at any number of workers; 1 for a custom one.
constexpr int stages_per_worker(schedule_kind kind, int chunks = 2) {
  if (kind == schedule_kind::custom || chunks < 1) return 1;
  const int stages = 2 * chunks;
  return stages / schedule_choice(kind, chunks).workers(stages);
}

/// The name of a kind, which `parse_schedule` reads, or "custom".
constexpr const char* name_of(schedule_kind kind) {
  if (kind == schedule_kind::searched) return "searched";
  return kind == schedule_kind::custom ? "custom" : schedule_choice(kind).name();
}

namespace detail {

/// Whether all forwards come before all backwards and each stage has its own worker. Then the makespan of every cut is
/// a formula.
template <scheduler Schedule>
constexpr bool drains(const Schedule& schedule, int stages) {
  if (schedule.workers(stages) < stages) return false;
  if constexpr (requires { schedule.unfolded; }) return drains(schedule.unfolded, stages);
  else if constexpr (requires { schedule.kind; })
    return schedule.kind == schedule_kind::fill_drain || schedule.kind == schedule_kind::forward_only;
  else return std::is_same_v<Schedule, fill_drain> || std::is_same_v<Schedule, forward_only>;
}

[[noreturn]] GPIPE_COLD inline void bad_schedule(std::string_view text) {
  std::string names;
  for (const schedule_kind kind : schedule_kinds) names.append(name_of(kind)).append(", ");
  throw_error({"the schedule is '", text, "'"}, {"choose ", names, "or searched, in upper or lower case"});
}

}  // namespace detail

/// The kind with this name, in upper or lower case; throws if there is none.
constexpr schedule_kind parse_schedule(std::string_view text) {
  const auto lower = [](char letter) {
    return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter + 32) : letter;
  };
  const auto names = [&](schedule_kind kind) {
    const std::string_view known = name_of(kind);
    bool equal = known.size() == text.size();
    for (std::size_t i = 0; equal && i < known.size(); ++i) equal = lower(known[i]) == lower(text[i]);
    return equal;
  };
  for (const schedule_kind kind : schedule_kinds)
    if (names(kind)) return kind;
  if (names(schedule_kind::searched)) return schedule_kind::searched;
  detail::bad_schedule(text);
}

}  // namespace gpipe
