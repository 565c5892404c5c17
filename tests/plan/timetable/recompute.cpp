#include <gpipe/plan/timetable/recompute.hpp>

#include <gpipe/plan/timetable/slot_assignment.hpp>

#include <gpipe/plan/schedule/any_schedule.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <bitset>
#include <string>
#include <vector>

using namespace gpipe;
using namespace gpipe::detail;

namespace {

/// The flags as letters, micro-batch 0 first: R is recomputed, k is kept.
template <class Schedule>
std::string flags(Schedule schedule, int S, int M, const recompute_choice& choice, int stage) {
  bool recomputed[64];
  const int count = flag_recomputed(schedule, S, M, choice, stage, recomputed);
  std::string text;
  for (int m = 0; m < M; ++m) text += recomputed[m] ? 'R' : 'k';
  CHECK(count == std::count(text.begin(), text.end(), 'R'));
  return text;
}

constexpr int count_of(recompute_choice choice, int stage) {
  bool recomputed[8] = {};
  return flag_recomputed(one_f_one_b{}, 4, 8, choice, stage, recomputed);
}
static_assert(count_of(recompute_mode::always, 0) == 8 && count_of(recompute_mode::never, 0) == 0);
static_assert(count_of(recompute_mode::as_needed, 0) == 8 && count_of(recompute_mode::as_needed, 3) == 0);

/// The maximum of working sets that a stage needs at once, cell by cell, if these are recomputed.
template <class Schedule>
int working_sets(Schedule schedule, int S, int M, int stage, unsigned recomputed) {
  std::vector<int> forward(16, -1), input(16, -1), parameters(16, -1);
  const int worker = schedule.worker_of(S, stage), ticks = schedule.ticks(S, M);
  for (int t = 0; t < ticks; ++t) {
    const cell c = schedule.at(S, M, worker, t);
    if (c.stage != stage) continue;
    const auto m = static_cast<std::size_t>(c.micro_batch);
    if (c.kind == action_kind::forward) forward[m] = t;
    if (c.kind == action_kind::backward || c.kind == action_kind::backward_input) input[m] = t;
    if (c.kind == action_kind::backward || c.kind == action_kind::backward_parameters) parameters[m] = t;
  }
  int max = 0;
  for (int t = 0; t < ticks; ++t) {
    int now = 0;
    for (std::size_t m = 0; m < static_cast<std::size_t>(M); ++m) {
      const bool kept = !(recomputed >> m & 1u);
      now += t == forward[m] || (input[m] <= t && t <= parameters[m]) || (kept && forward[m] < t && t < input[m]);
    }
    max = std::max(max, now);
  }
  return max;
}

template <class Schedule>
void is_minimal(Schedule schedule, int S, int M) {
  if (!schedule.admits(S, M)) return;
  for (int s = 0; s < S; ++s) {
    const int min = working_sets(schedule, S, M, s, ~0u);
    for (int k = 1; k <= M + 1; ++k) {
      std::vector<int> room(static_cast<std::size_t>(S), k);
      bool recomputed[16];
      const recompute_choice choice{recompute_mode::as_needed, room.data()};
      if (k < min) {
        CHECK_THROWS_AS(flag_recomputed(schedule, S, M, choice, s, recomputed), error);
        continue;
      }
      const int count = flag_recomputed(schedule, S, M, choice, s, recomputed);
      unsigned flags = 0;
      for (int m = 0; m < M; ++m) flags |= static_cast<unsigned>(recomputed[m]) << m;
      int fewest = M;
      for (unsigned set = 0; set < (1u << M); ++set)
        if (const int size = static_cast<int>(std::bitset<16>(set).count()); size < fewest)
          if (working_sets(schedule, S, M, s, set) <= k) fewest = size;
      CAPTURE(schedule.name());
      CAPTURE(S);
      CAPTURE(M);
      CAPTURE(s);
      CAPTURE(k);
      CHECK(working_sets(schedule, S, M, s, flags) <= k);
      CHECK(count == fewest);
    }
  }
}

}  // namespace

TEST_CASE("always, never, and all but those whose backward comes right after forward") {
  CHECK(flags(fill_drain{}, 3, 4, recompute_mode::always, 1) == "RRRR");
  CHECK(flags(fill_drain{}, 3, 4, recompute_mode::never, 1) == "kkkk");
  CHECK(flags(fill_drain{}, 3, 4, recompute_mode::except_last, 1) == "kRRR");  // numbered from the last
  CHECK(flags(one_f_one_b{}, 3, 4, recompute_mode::except_last, 1) == "RRRR");
  CHECK(flags(one_f_one_b{}, 3, 4, recompute_mode::except_last, 2) == "kkkk");  // each goes straight back
  CHECK(flags(forward_only{}, 3, 4, recompute_mode::always, 1) == "kkkk");      // nothing goes back
}

TEST_CASE("as needed: with one working set it is kept where backward follows forward") {
  CHECK(flags(fill_drain{}, 3, 4, recompute_mode::as_needed, 0) == "kRRR");
  CHECK(flags(one_f_one_b{}, 3, 4, recompute_mode::as_needed, 0) == "RRRR");
  CHECK(flags(one_f_one_b{}, 3, 4, recompute_mode::as_needed, 2) == "kkkk");
  const int two[] = {2, 2, 2}, three[] = {3, 3, 3};
  CHECK(flags(fill_drain{}, 3, 4, {recompute_mode::as_needed, two}, 0) == "kkRR");
  CHECK(flags(one_f_one_b{}, 3, 4, {recompute_mode::as_needed, two}, 1) == "kkkk");
  CHECK(flags(one_f_one_b{}, 3, 6, {recompute_mode::as_needed, two}, 0) == "kRkRkR");
  CHECK(flags(one_f_one_b{}, 3, 6, {recompute_mode::as_needed, three}, 0) == "kkkkkk");
}

TEST_CASE("as needed: no choice that fits recomputes fewer") {
  for (int S = 1; S <= 6; ++S)
    for (int M = 1; M <= 7; ++M) {
      is_minimal(fill_drain{}, S, M);
      is_minimal(one_f_one_b{}, S, M);
      is_minimal(interleaved{2}, S, M);
      is_minimal(zb_h1{}, S, M);
      is_minimal(zb_v{}, S, M);
    }
}

template <class Schedule>
void slots_are_distinct(Schedule schedule, int S, int M, const recompute_choice& choice) {
  for (int s = 0; s < S; ++s) {
    bool recomputed[16];
    int forward[16], backward[16], owner[17];
    flag_recomputed(schedule, S, M, choice, s, recomputed);
    unsigned flags = 0;
    for (int m = 0; m < M; ++m) flags |= static_cast<unsigned>(recomputed[m]) << m;
    const int count = working_set_slots(schedule, S, M, choice, s, forward, backward);
    CHECK(count == working_sets(schedule, S, M, s, flags));
    std::fill(owner, owner + 17, -1);
    bool shared = false;
    for (int t = 0; t < schedule.ticks(S, M); ++t) {
      const cell c = schedule.at(S, M, schedule.worker_of(S, s), t);
      if (c.stage != s || c.kind == action_kind::idle) continue;
      const int m = c.micro_batch, slot = c.kind == action_kind::forward ? forward[m] : backward[m];
      shared = shared || slot >= count || (owner[slot] >= 0 && owner[slot] != m);
      owner[slot] = (c.kind == action_kind::forward && recomputed[m]) || c.kind == action_kind::backward ||
                            c.kind == action_kind::backward_parameters
                        ? -1
                        : m;
      if (c.kind == action_kind::forward && !recomputed[m]) shared = shared || forward[m] != backward[m];
    }
    CHECK_FALSE(shared);
  }
}

TEST_CASE("slots of working sets are never shared, and there are no more than needed") {
  const int room[] = {4, 5, 6, 7};
  for (const schedule_choice chosen :
       {schedule_choice(schedule_kind::fill_drain), schedule_choice(schedule_kind::one_f_one_b),
        schedule_choice(schedule_kind::interleaved, 2), schedule_choice(schedule_kind::zb_h1),
        schedule_choice(schedule_kind::zb_v)})
    for (int S = 1; S <= 4; ++S)
      for (int M = 1; M <= 16; ++M)
        with_schedule(chosen, [&](auto schedule) {
          if (!schedule.admits(S, M)) return;
          for (const auto mode : {recompute_mode::always, recompute_mode::except_last, recompute_mode::never})
            slots_are_distinct(schedule, S, M, mode);
          slots_are_distinct(schedule, S, M, {recompute_mode::as_needed, room});
        });
  int forward[4], backward[4];
  CHECK(working_set_slots(forward_only{}, 3, 4, recompute_mode::always, 1, forward, backward) == 1);
}

TEST_CASE("too few working sets are rejected and named") {
  bool recomputed[8];
  const int none[] = {0, 0, 0}, one[] = {1, 1, 1};
  CHECK_THROWS_WITH_AS(flag_recomputed(fill_drain{}, 3, 8, {recompute_mode::as_needed, none}, 1, recomputed),
                       doctest::Contains("stage 1 cannot run with 0 working sets"), error);
  CHECK_THROWS_WITH_AS(flag_recomputed(zb_h1{}, 3, 8, {recompute_mode::as_needed, one}, 2, recomputed),
                       doctest::Contains("stage 2 cannot run with 1 working set;"), error);
  CHECK_THROWS_AS(flag_recomputed(fill_drain{}, 0, 8, recompute_mode::never, 0, recomputed), error);
}
