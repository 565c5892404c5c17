// compiled: alone
#include <gpipe/plan/timetable/promises.hpp>

#include <doctest/doctest.h>

#include "support/chain_links.hpp"

using namespace gpipe;
using namespace gpipe::detail;

namespace {

/// As in a plan: checked by its tick runs or piece by piece, under the compilers' default limits.
template <auto Schedule, int Stages, int MicroBatches>
struct table {
  static constexpr auto schedule = Schedule;
  static constexpr int stages = Stages, micro_batches = MicroBatches, link_count = Stages - 1;
  static constexpr const stage_link* links = chain<Stages>.links;
};

static_assert(require_sound<table<fill_drain{}, 128, 512>>());
static_assert(require_sound<table<one_f_one_b{}, 128, 512>>());
static_assert(require_sound<table<interleaved{2}, 16, 64>>());
static_assert(require_sound<table<interleaved{2, warmup_kind::longest}, 16, 64>>());
static_assert(require_sound<table<looped_bfs{2}, 16, 64>>());
static_assert(require_sound<table<zb_h1{}, 8, 64>>());
static_assert(require_sound<table<interleaved_zb{2}, 16, 64>>());
static_assert(require_sound<table<zb_v{}, 16, 64>>());
static_assert(require_sound<table<dual_pipe_v{}, 16, 64>>());
static_assert(require_sound<table<v_half{}, 16, 64>>());
static_assert(require_sound<table<v_min{}, 16, 64>>());
static_assert(require_sound<table<zb_2p{}, 8, 64>>());
static_assert(require_sound<table<forward_only{}, 8, 64>>());
static_assert(require_sound<table<schedule_choice{schedule_kind::interleaved, 4}, 8, 64>>());

// A table may have any length if its rows are a few tick runs.
static_assert(require_sound<table<fill_drain{}, 1024, 1'000'000>>());

// A schedule derived from one with tick runs has none, and is checked cell by cell.
template <int Worker>
struct early : one_f_one_b {
  static constexpr cell at(int S, int M, int w, int t) {
    return w == Worker && t == 4 ? cell{action_kind::forward, 2, 5} : one_f_one_b::at(S, M, w, t);
  }
};
static_assert(require_sound<table<early<-1>{}, 16, 128>>());
constexpr check_result found = checked_table<table<early<2>{}, 4, 8>>();
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
static_assert(checked_table<table<fewer_workers{}, 3, 4>>().error == fault::unknown);
static_assert(checked_table<table<no_workers{}, 3, 4>>().error == fault::unknown);
static_assert(checked_table<table<no_ticks{}, 3, 4>>().error == fault::missing);

// Tick runs that differ from the table prove nothing, and its cells are checked.
struct lying : fill_drain {
  static constexpr cell at(int S, int M, int w, int t) {
    return w == 1 && t == 1 ? cell{} : fill_drain::at(S, M, w, t);
  }
};

}  // namespace

template <>
struct gpipe::tick_runs_of<lying> : tick_runs_of<fill_drain> {};
static_assert(checked_table<table<lying{}, 3, 4>>().error == fault::premature);

TEST_CASE("a table is checked in pieces within the compilers' limits") {
  CHECK(detail::pieces_of(fill_drain{}, 128, 512).workers == 8);
  CHECK(detail::pieces_of(fill_drain{}, 128, 512).pieces == 16);
  CHECK(detail::pieces_of(zb_v{}, 16, 20'000).pieces == 8);
  CHECK(detail::pieces_of(no_ticks{}, 3, 4).pieces == 1);
}
