#pragma once

#include <gpipe/plan/schedule/fill_drain.hpp>
#include <gpipe/plan/schedule/forward_only.hpp>

#include <utility>

namespace gpipe {

/// The schedules that we ship, for a choice at run time.
enum class schedule_kind { fill_drain, forward_only };

/// Calls `use` with an object of the chosen schedule's type: the one place where a kind becomes a type.
template <class Use>
constexpr decltype(auto) with_schedule(schedule_kind kind, Use&& use) {
  if (kind == schedule_kind::forward_only) return std::forward<Use>(use)(forward_only{});
  return std::forward<Use>(use)(fill_drain{});
}

}  // namespace gpipe
