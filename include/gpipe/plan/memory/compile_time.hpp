#pragma once

#include <cstdint>
#include <utility>

#include <gpipe/core/zeroed_array.hpp>
#include <gpipe/model/promises.hpp>
#include <gpipe/plan/memory/layout.hpp>
#include <gpipe/plan/memory/memory_kind.hpp>
#include <gpipe/plan/memory/requirements.hpp>
#include <gpipe/plan/stages/stage_view.hpp>

namespace gpipe {

namespace broken {

template <int Stage, std::int64_t BytesNeeded, std::int64_t BytesAllowed, bool Holds>
struct stage_fits_memory {
  static_assert(Holds, "gpipe: a stage needs more memory than it is allowed (Stage, BytesNeeded, BytesAllowed)");
};

}  // namespace broken

namespace detail {

// The memory of every stage at compile time. The steps of a constant evaluation are limited: a stage is counted in
// pieces, each of which continues the one before, and equal stages are counted once.
//
// `Cut` describes the stages: `Cut::stages`, `Cut::view(s)` and `Cut::requirements(s)`.

inline constexpr int ticks_at_once = 1024;

template <class Cut, int Stage, int Until>
inline constexpr layout_state stage_count = [] {
  if constexpr (Until <= ticks_at_once) return count_on(Cut::view(Stage), Cut::requirements(Stage), {}, Until);
  else
    return count_on(Cut::view(Stage), Cut::requirements(Stage), stage_count<Cut, Stage, Until - ticks_at_once>, Until);
}();

/// For each stage the first equal stage. (One evaluation for all stages: under nvcc the cost of starting one grows with
/// the model.)
template <class Cut>
inline constexpr auto equal_stages = [] {
  constant_list<int, Cut::stages> first;
  const zeroed_array<memory_requirements> needs(Cut::stages);
  for (int s = 0; s < Cut::stages; ++s) {
    const stage_view stage = Cut::view(s);
    needs[s] = Cut::requirements(s);
    int t = 0;
    while (t < s && !(first.elements[t] == t && needs[s] == needs[t] && stage.matches(Cut::view(t)))) ++t;
    first.elements[s] = t;
  }
  return first;
}();

template <class Cut, int Stage>
inline constexpr stage_memory stage_memory_at = [] {
  constexpr int equal = equal_stages<Cut>.elements[Stage];
  if constexpr (equal < Stage) return stage_memory_at<Cut, equal>;
  else return stage_count<Cut, Stage, 2 * (Cut::view(Stage).last() - Cut::view(Stage).first())>.memory;
}();

/// The bytes of each stage of `Cut`, by kind.
template <class Cut>
inline constexpr auto memory_table = []<int... Indices>(std::integer_sequence<int, Indices...>) {
  return constant_list<stage_memory, Cut::stages>{{stage_memory_at<Cut, Indices>...}};
}
(std::make_integer_sequence<int, Cut::stages>{});

/// The same limit for each stage.
template <std::int64_t Bytes>
constexpr std::int64_t equal_limit(int) {
  return Bytes;
}

/// Reports each stage of a cut (see `memory_table`) that needs more bytes than `Allowed(stage)`.
template <class Cut, std::int64_t (*Allowed)(int), int... Indices>
constexpr bool each_stage_fits(std::integer_sequence<int, Indices...>) {
  // True in any case: the mistake has its own error.
  return (
      asserted<broken::stage_fits_memory<Indices, memory_table<Cut>.elements[Indices].total(), Allowed(Indices),
                                         (memory_table<Cut>.elements[Indices].total() <= Allowed(Indices))>>::value &&
      ...);
}

}  // namespace detail
}  // namespace gpipe
