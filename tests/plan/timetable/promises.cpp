// compiled: alone
#include <gpipe/plan/timetable/promises.hpp>

#include <doctest/doctest.h>

#include <vector>

#include <gpipe/plan/timetable/check.hpp>

#include "support/chain_links.hpp"

using namespace gpipe;
using namespace gpipe::detail;

namespace {

/// As in a plan: checked by its tick runs or piece by piece, under the compilers' default limits.
template <auto Schedule, int Stages, int MicroBatches>
struct table_of {
  static constexpr auto schedule = Schedule;
  static constexpr int stages = Stages, micro_batches = MicroBatches, link_count = Stages - 1;
  static constexpr const stage_link* links = chain<Stages>.links;
};

static_assert(require_sound<table_of<fill_drain{}, 128, 512>>());
static_assert(require_sound<table_of<one_f_one_b{}, 128, 512>>());
static_assert(require_sound<table_of<interleaved{2}, 16, 64>>());
static_assert(require_sound<table_of<interleaved{2, warmup_kind::longest}, 16, 64>>());
static_assert(require_sound<table_of<looped_bfs{2}, 16, 64>>());
static_assert(require_sound<table_of<zb_h1{}, 8, 64>>());
static_assert(require_sound<table_of<interleaved_zb{2}, 16, 64>>());
static_assert(require_sound<table_of<zb_v{}, 16, 64>>());
static_assert(require_sound<table_of<dual_pipe_v{}, 16, 64>>());
static_assert(require_sound<table_of<v_half{}, 16, 64>>());
static_assert(require_sound<table_of<v_min{}, 16, 64>>());
static_assert(require_sound<table_of<zb_2p{}, 8, 64>>());
static_assert(require_sound<table_of<forward_only{}, 8, 64>>());
static_assert(require_sound<table_of<schedule_choice{schedule_kind::interleaved, 4}, 8, 64>>());

// A table may have any length if its rows are a few tick runs.
static_assert(require_sound<table_of<fill_drain{}, 1024, 1'000'000>>());

// A schedule derived from one with tick runs has none, and is checked cell by cell.
template <int Worker>
struct early : one_f_one_b {
  static constexpr cell at(int S, int M, int w, int t) {
    return w == Worker && t == 4 ? cell{action_kind::forward, 2, 5} : one_f_one_b::at(S, M, w, t);
  }
};
static_assert(require_sound<table_of<early<-1>{}, 16, 128>>());
constexpr check_result found = checked_table<table_of<early<2>{}, 4, 8>>();
static_assert(found.error == fault::premature && found.worker == 2 && found.position == 4);

struct fewer_workers : fill_drain {
  static constexpr int workers(int) { return 2; }
};
struct no_workers : fill_drain {
  static constexpr int workers(int) { return 0; }
};
struct no_ticks : fill_drain {
  static constexpr int ticks(int, int) { return -1; }
};
static_assert(checked_table<table_of<fewer_workers{}, 3, 4>>().error == fault::unknown);
static_assert(checked_table<table_of<no_workers{}, 3, 4>>().error == fault::unknown);
static_assert(checked_table<table_of<no_ticks{}, 3, 4>>().error == fault::missing);

// Tick runs that differ from the table prove nothing, and its cells are checked.
struct lying : fill_drain {
  static constexpr cell at(int S, int M, int w, int t) {
    return w == 1 && t == 1 ? cell{} : fill_drain::at(S, M, w, t);
  }
};

}  // namespace

template <>
struct gpipe::tick_runs_of<lying> : tick_runs_of<fill_drain> {};
static_assert(checked_table<table_of<lying{}, 3, 4>>().error == fault::premature);

TEST_CASE("a table is checked in pieces within the compilers' limits") {
  CHECK(detail::pieces_of(fill_drain{}, 128, 512).workers == 8);
  CHECK(detail::pieces_of(fill_drain{}, 128, 512).pieces == 16);
  CHECK(detail::pieces_of(zb_v{}, 16, 20'000).pieces == 8);
  CHECK(detail::pieces_of(no_ticks{}, 3, 4).pieces == 1);
}

namespace {

template <class Schedule>
constexpr bool proven(const Schedule& schedule, int stages, int micro_batches) {
  return check_runs(schedule, stages, micro_batches, chain<8>.links, stages - 1, 0, stages);
}
static_assert(proven(fill_drain{}, 1, 1) && proven(fill_drain{}, 8, 3) && proven(fill_drain{}, 8, 1'000'000));
static_assert(proven(one_f_one_b{}, 1, 1) && proven(one_f_one_b{}, 8, 3) && proven(one_f_one_b{}, 8, 1'000'000));
static_assert(proven(forward_only{}, 1, 1) && proven(forward_only{}, 8, 1'000'000));
static_assert(!proven(zb_v{}, 8, 16));  // has no tick runs

/// A table made of tick runs: its `at` reads them.
struct stretched {
  static constexpr int max = 8;  // in a row: a stage, a chunk of it or two
  std::vector<std::vector<tick_run>> rows;
  std::vector<int> room;
  int length = 0;
  bool trains = true;

  static constexpr const char* name() { return "stretched"; }
  static constexpr bool admits(int, int) { return true; }
  int workers(int) const { return static_cast<int>(rows.size()); }
  int worker_of(int, int stage) const { return stage; }
  int ticks(int, int) const { return length; }
  int in_flight(int, int, int stage) const { return room[static_cast<std::size_t>(stage)]; }
  cell at(int, int, int worker, int tick) const {
    for (const tick_run& x : rows[static_cast<std::size_t>(worker)])
      for (int m = x.first; m < x.first + x.count; ++m)
        if (x.tick_of(m) == tick) return x.at(m);
    return {};
  }
};

}  // namespace

template <>
struct gpipe::tick_runs_of<stretched> {
  static constexpr int count = stretched::max;
  static tick_run at(const stretched& table, int, int, int worker, int index) {
    const auto& row = table.rows[static_cast<std::size_t>(worker)];
    return static_cast<std::size_t>(index) < row.size() ? row[static_cast<std::size_t>(index)] : tick_run{};
  }
};

namespace {

template <class Schedule>
stretched copy_of(const Schedule& schedule, int S, int M) {
  stretched table{{}, {}, schedule.ticks(S, M), schedule.trains};
  for (int s = 0; s < S; ++s) {
    table.room.push_back(schedule.in_flight(S, M, s));
    table.rows.emplace_back();
    for (int i = 0; i < tick_runs_of<Schedule>::count; ++i)
      table.rows.back().push_back(tick_runs_of<Schedule>::at(schedule, S, M, s, i));
  }
  return table;
}

/// 1F1B with every tick run cut in two, and backward in two parts if asked for.
stretched in_pieces(int S, int M, bool split) {
  stretched table = copy_of(one_f_one_b{}, S, M);
  table.length = 2 * table.length;
  for (auto& row : table.rows) {
    std::vector<tick_run> pieces;
    for (tick_run x : row) {
      x.tick *= 2;
      x.every *= 2;
      if (split && x.kind == action_kind::backward) {
        tick_run late = x;
        x.kind = action_kind::backward_input;
        late.kind = action_kind::backward_parameters;
        ++late.tick;
        pieces.push_back(late);
      }
      const int half = x.count / 2;
      pieces.push_back({x.kind, x.stage, x.first, half, x.tick, x.every});
      pieces.push_back({x.kind, x.stage, x.first + half, x.count - half, x.tick_of(x.first + half), x.every});
    }
    row = pieces;
  }
  return table;
}

/// Calls `use` with the table after each small change of one number.
template <class Use>
void plant(const stretched& sound, const Use& use) {
  for (std::size_t w = 0; w < sound.rows.size(); ++w) {
    for (std::size_t i = 0; i < sound.rows[w].size(); ++i)
      for (int tick_run::*const number :
           {&tick_run::stage, &tick_run::first, &tick_run::count, &tick_run::tick, &tick_run::every})
        for (const int by : {-3, -2, -1, 1, 2, 3}) {
          stretched changed = sound;
          changed.rows[w][i].*number += by;
          use(changed);
        }
    for (std::size_t i = 0; i < sound.rows[w].size(); ++i)
      for (const action_kind kind :
           {action_kind::idle, action_kind::forward, action_kind::backward, action_kind::backward_input,
            action_kind::backward_parameters, action_kind::recompute}) {
        stretched changed = sound;
        changed.rows[w][i].kind = kind;
        use(changed);
      }
    for (const int by : {-2, -1}) {
      stretched changed = sound;
      changed.room[w] += by;
      use(changed);
    }
  }
  for (const int by : {-2, -1}) {
    stretched changed = sound;
    changed.length += by;
    use(changed);
  }
}

}  // namespace

TEST_CASE("no wrong table is proven") {
  int proofs = 0, sound = 0, wrong = 0;
  const auto compare = [&](const stretched& table, int S, int M, const stage_link* links, int count) {
    const bool proof = check_runs(table, S, M, links, count, 0, S);
    const bool right = check_timetable(table, S, M, links, count).ok();
    if (proof) REQUIRE(right);
    proofs += proof;
    (right ? sound : wrong) += 1;
  };
  const stage_link net[] = {{0, 1}, {0, 3}, {1, 2}, {1, 3, false}, {2, 3}};
  for (const int S : {1, 2, 4})
    for (const int M : {1, 2, 3, 4, 7}) {
      const bool all = S == 4;
      const auto check = [&](const stretched& table) {
        const auto once = [&](const stretched& it) { compare(it, S, M, all ? net : chain<8>.links, all ? 5 : S - 1); };
        REQUIRE(check_runs(table, S, M, all ? net : chain<8>.links, all ? 5 : S - 1, 0, S));
        once(table);
        plant(table, once);
      };
      check(copy_of(fill_drain{}, S, M));
      check(copy_of(one_f_one_b{}, S, M));
      check(copy_of(forward_only{}, S, M));
      check(in_pieces(S, M, false));
      check(in_pieces(S, M, true));
    }
  CHECK(wrong > 5000);
  CHECK(sound > 500);
  CHECK(proofs > sound / 2);
}

TEST_CASE("faults of larger changes are found") {
  const auto refuses = [](const stretched& table, int S, int M) {
    CHECK_FALSE(check_timetable(table, S, M, chain<8>.links, S - 1).ok());
    CHECK_FALSE(check_runs(table, S, M, chain<8>.links, S - 1, 0, S));
  };
  // Two runs share a tick between their ends: F2 and B1 in tick 4.
  refuses({{{{action_kind::forward, 0, 0, 5, 0, 2}, {action_kind::backward, 0, 0, 5, 1, 3}}}, {5}, 14}, 1, 5);
  // F0 F1 F2 B2 B1 B0
  refuses({{{{action_kind::forward, 0, 0, 3, 0, 1}, {action_kind::backward, 0, 0, 3, 5, -1}}}, {3}, 6}, 1, 3);
  // A worker also runs the cells of another.
  stretched table = copy_of(fill_drain{}, 2, 3);
  table.rows[0].push_back({action_kind::forward, 1, 0, 1, 4, 1});
  refuses(table, 2, 3);
}

TEST_CASE("workers can be checked in parts, with the same result") {
  stretched table = copy_of(one_f_one_b{}, 8, 6);
  table.rows[5][0].tick += 2;  // after what stage 6 needs of it
  CHECK(check_runs(table, 8, 6, chain<8>.links, 7, 0, 5));
  CHECK(check_runs(table, 8, 6, chain<8>.links, 7, 5, 6));
  CHECK_FALSE(check_runs(table, 8, 6, chain<8>.links, 7, 6, 8));
}

namespace {

/// Fill-drain whose stage 0 is idle for a tick that its runs do not show.
struct sleepy : fill_drain {
  int until;  // it is idle in the tick before

  constexpr cell at(int S, int M, int w, int t) const {
    return w == 0 && t == until - 1 ? cell{} : fill_drain::at(S, M, w, t);
  }
};

}  // namespace

template <>
struct gpipe::tick_runs_of<sleepy> : tick_runs_of<fill_drain> {};

TEST_CASE("the ends of a tick run are cells of the table") {
  CHECK(proven(sleepy{{}, 0}, 3, 4));
  for (const int tick : {0, 3, 8, 11}) CHECK_FALSE(proven(sleepy{{}, tick + 1}, 3, 4));
}
