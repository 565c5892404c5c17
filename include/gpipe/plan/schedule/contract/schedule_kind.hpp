#pragma once

#include <cstdint>

namespace gpipe {

// change: a schedule; before custom
/// The built-in schedules, for a choice at run time, a custom one, and a table that a plan searches for its stages at
/// run time. A new built-in schedule has one line here and one in `with_kind` of any_schedule.hpp. The rest of the
/// pipeline reads these two lists; the search in tools/best also lists kinds.
enum class schedule_kind {
  fill_drain,
  one_f_one_b,
  interleaved,
  looped_bfs,
  zb_h1,
  interleaved_zb,
  zb_v,
  dual_pipe_v,
  v_half,
  v_min,
  zb_2p,
  forward_only,
  custom,
  searched
};

/// The warm-up of the interleaved schedule: how many forwards a worker runs before its first backward.
/// Automatic: as the plan chooses; outside a plan it is the shortest.
enum class warmup_kind : std::uint8_t { automatic, shortest, longest };

constexpr const char* name_of(warmup_kind kind) {
  return kind == warmup_kind::automatic ? "automatic" : kind == warmup_kind::shortest ? "shortest" : "longest";
}

}  // namespace gpipe
