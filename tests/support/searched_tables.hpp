#pragma once

// The law of searched tables, on random pipelines of at most 8 stages and 16 micro-batches.

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include <gpipe/plan/program/simulate.hpp>
#include <gpipe/plan/program/step_programs.hpp>
#include <gpipe/plan/schedule/any_schedule.hpp>
#include <gpipe/plan/timetable/check.hpp>
#include <gpipe/tools/search/searched_schedule.hpp>

#include "support/searched_pipelines.hpp"

namespace searches {

/// The most bytes of a worker, counted cell by cell.
template <scheduler Schedule>
std::int64_t peak_of(const searched_pipeline& of, const Schedule& table, int worker) {
  const int S = of.stage_count(), M = of.micro_batches;
  std::int64_t bytes = 0, peak = 0;
  for (int t = 0; t < table.ticks(S, M); ++t) {
    const cell c = table.at(S, M, worker, t);
    if (c.kind == action_kind::idle) continue;
    const searched_stage stage = of.stage(c.stage);
    if (c.kind == action_kind::forward) bytes += stage.kept;
    else if (c.kind == action_kind::backward) bytes -= stage.kept;
    else bytes -= c.kind == action_kind::backward_input ? stage.kept - stage.held : stage.held;
    peak = std::max(peak, bytes);
  }
  return peak;
}

template <scheduler Schedule>
bool fits(const searched_pipeline& of, const Schedule& table) {
  for (int w = 0; w < of.workers; ++w)
    if (peak_of(of, table, w) > of.limit(w)) return false;
  return true;
}

template <scheduler Schedule>
bool has_placement_of(const searched_pipeline& of, const Schedule& table) {
  const int S = of.stage_count();
  if (!table.trains || !table.admits(S, of.micro_batches) || table.workers(S) != of.workers) return false;
  for (int s = 0; s < S; ++s)
    if (table.worker_of(S, s) != of.worker_of(s)) return false;
  return true;
}

/// Checks that each searched table is sound, within the limits, as long as it says, and no longer than a schedule of
/// the library that fits.
inline void check_searched_tables(std::uint32_t seed, int count) {
  std::mt19937 random(seed);
  int known = 0, shorter = 0;
  for (int i = 0; i < count; ++i) {
    const bool v = i % 2 == 0;
    const int workers = 1 + static_cast<int>(random() % (v ? 4u : 8u)), M = 1 + static_cast<int>(random() % 16);
    const random_pipeline it(random, workers, M, v ? placement::v : placement::one_each);
    const int S = it.is.stage_count();
    const searched_schedule found(it.is, 0.0005);
    const simulated_pipeline simulated(it.is);
    const stage_link* const links = simulated.links.data();
    CAPTURE(i);
    for (const int slots : {gpipe::detail::rendezvous, 1})
      REQUIRE(check_schedule(found.table(), S, M, recompute_mode::except_last, links, S - 1, slots).ok());
    REQUIRE(fits(it.is, found.table()));
    REQUIRE(simulate(found.table(), simulated.input) == found.makespan());
    REQUIRE(found.lower_bound() <= found.makespan());
    std::int64_t best = -1;
    for (const schedule_kind kind : schedule_kinds) {
      const schedule_choice shipped(kind);
      if (!has_placement_of(it.is, shipped) || !fits(it.is, shipped)) continue;
      const std::int64_t its = simulate(shipped, simulated.input);
      if (best < 0 || its < best) best = its;
    }
    known += best >= 0;
    shorter += found.makespan() < best;
    if (best >= 0) REQUIRE(found.makespan() <= best);
  }
  MESSAGE(known, " of ", count, " pipelines have room for a schedule of the library; ", shorter, " tables are shorter");
  CHECK(known > count / 3);
  CHECK(shorter > known / 4);
}

}  // namespace searches
