#include <gpipe/plan/program/promises.hpp>

#include <doctest/doctest.h>

#include <string>

#include <gpipe/plan/program/print.hpp>

#include "support/schedules.hpp"

using namespace gpipe;
using namespace gpipe::detail;

namespace {

template <schedule_kind Kind, int Slots>
struct table {
  static constexpr schedule_choice schedule = Kind, forwards = schedule.forwards();
  static constexpr int stages = 4, micro_batches = 8, link_count = 4, group_gradients = 1, late = 0;
  static constexpr stage_link links[] = {{0, 1}, {0, 3}, {1, 2}, {2, 3}};
  static constexpr bool ties = true;
  static constexpr recompute_choice recompute() { return recompute_mode::except_last; }
  static constexpr void set_copies(const stage_link&, int* copies) { copies[0] = copies[1] = Slots; }
};
static_assert(require_programs<table<schedule_kind::fill_drain, 8>>());
static_assert(require_programs<table<schedule_kind::one_f_one_b, 4>>());
static_assert(require_programs<table<schedule_kind::zb_h1, 8>>());
static_assert(require_programs<table<schedule_kind::interleaved, 8>>());
static_assert(detail::programs_of<table<schedule_kind::one_f_one_b, 3>, true>.found.error == fault::stash);

/// Near the largest that constant evaluations run.
template <schedule_kind Kind, int Stages, int MicroBatches>
struct largest : table<Kind, 64> {
  static constexpr int stages = Stages, micro_batches = MicroBatches;
  static constexpr schedules::linked_stages net{Stages < 8 ? Stages : 8};
  static constexpr int link_count = net.count;
  static constexpr const stage_link* links = net.links;
};
template <schedule_kind Kind, int Stages, int MicroBatches>
constexpr bool runs = detail::runs_early<largest<Kind, Stages, MicroBatches>>() &&
                      require_programs<largest<Kind, Stages, MicroBatches>>();
static_assert(runs<schedule_kind::zb_v, 8, 16>);
static_assert(runs<schedule_kind::v_half, 8, 16>);
static_assert(runs<schedule_kind::zb_2p, 8, 16>);
static_assert(runs<schedule_kind::zb_h1, 8, 16>);
static_assert(runs<schedule_kind::interleaved, 16, 16>);
static_assert(runs<schedule_kind::fill_drain, 16, 4>);
static_assert(runs<schedule_kind::one_f_one_b, 4, 64>);

/// Which worker waits for what, as text.
std::string circle(const schedules::edited& schedule, int S, int M) {
  const schedules::linked_stages net(S, false);
  std::string text;
  find_cycle_of(schedule, S, M, net.links, net.count,
                [&](const waiting_worker& it) { text += (text.empty() ? "" : "; ") + describe(it); });
  return text;
}

}  // namespace

TEST_CASE("a circle of cells is found, with the worker, tick and cell of each") {
  using enum action_kind;
  schedules::edited schedule(one_f_one_b{}, 3, 2);
  CHECK(circle(schedule, 3, 2) == "");
  schedule.rows[1] = {{forward, 1, 1}, {forward, 1, 0}, {backward, 1, 0}, {backward, 1, 1}};
  schedule.rows[0] = {{forward, 0, 0}, {backward, 0, 0}, {forward, 0, 1}, {backward, 0, 1}};
  schedule.rows[2] = {{forward, 2, 0}, {backward, 2, 0}, {forward, 2, 1}, {backward, 2, 1}};
  CHECK(circle(schedule, 3, 2) ==
        "worker 0 waits at tick 1 in 0B0 (backward); worker 1 waits at tick 0 in 1F1 (forward)");
  // Over three workers: the second sends m = 0 after m = 1, which the third does not take before m = 0's gradient.
  schedule.rows[0] = {{forward, 0, 0}, {forward, 0, 1}, {backward, 0, 0}, {backward, 0, 1}};
  schedule.rows[1] = {{forward, 1, 0}, {backward, 1, 0}, {forward, 1, 1}, {backward, 1, 1}};
  schedule.rows[2] = {{forward, 2, 1}, {forward, 2, 0}, {backward, 2, 0}, {backward, 2, 1}};
  CHECK(circle(schedule, 3, 2) ==
        "worker 1 waits at tick 1 in 1B0 (backward); worker 2 waits at tick 0 in 2F1 (forward)");
}

TEST_CASE("a table that is wrong in another way has no circle") {
  schedules::edited schedule(one_f_one_b{}, 3, 2);
  schedule.rows[1][1] = {};
  CHECK(circle(schedule, 3, 2) == "");
}
