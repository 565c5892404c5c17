// sanitizers: none
// optimize: yes

// Law 3, third part: the programs that run, with buffered sends, in the slots that a plan assigns: for every shipped
// schedule, S <= 8 and M <= 16, on fewer workers, with skips, recompute and combined parameter parts.

#include <gpipe/plan/program/promises.hpp>

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include <gpipe/plan/memory/derive_requirements.hpp>
#include <gpipe/plan/program/print.hpp>

#include "support/schedules.hpp"

using namespace gpipe;
using namespace gpipe::detail;
using namespace schedules;

namespace {

enum class topology { chain, skips, dense };  // links of neighbours, some skips, one of each pair of stages

struct net_of {
  std::vector<stage_link> links;

  explicit net_of(int stages, topology which = topology::skips) {
    const linked_stages some(stages, which == topology::skips);
    links.assign(some.links, some.links + some.count);
    if (which != topology::dense) return;
    links.clear();
    for (int from = 0; from < stages; ++from)
      for (int to = from + 1; to < stages; ++to) links.push_back({from, to, (from + to) % 3 != 0});
  }
  int count() const { return static_cast<int>(links.size()); }
};

/// The slots of a plan with these links.
struct plan_slots {
  std::vector<int> stash, returned, copies;

  plan_slots(schedule_choice schedule, int S, int M, const net_of& net, int group_gradients, bool transfers) {
    const plan_options options{
        .stages = S, .micro_batches = M, .group_gradients = group_gradients, .cost_transfers = transfers};
    gpipe::detail::tick_index<schedule_choice> table(schedule, S, M, group_gradients);
    const auto count = static_cast<std::size_t>(net.count() * M);
    stash.resize(count);
    returned.resize(count);
    for (int i = 0; i < net.count(); ++i) {
      const stage_link& l = net.links[static_cast<std::size_t>(i)];
      gpipe::detail::assign_link_slots(table, l, gpipe::detail::on_the_way(transfers), stash.data() + i * M,
                                       returned.data() + i * M);
      copies.push_back(requirements_of(schedule, options, l.target).stash.from(l.target - l.source));
      copies.push_back(requirements_of(schedule, options, l.source).returned.from(l.target - l.source));
    }
  }
  link_slot_table view() const { return {stash.data(), returned.data(), copies.data()}; }
};

std::string run(schedule_choice schedule, int S, int M, recompute_mode mode, const net_of& net, int group_gradients,
                const plan_slots& memory_slots, bool ties = true) {
  return describe(gpipe::detail::check_planned(schedule, S, M, mode, net.links.data(), net.count(), group_gradients,
                                               memory_slots.view(), ties));
}

}  // namespace

TEST_CASE("the programs that run end in the plan's slots, those of forward-only passes too") {
  for (const auto& choice : choices)
    for (int S = 1; S <= 8; ++S)
      for (int M = 1; M <= 16; ++M)
        for (const topology links : {topology::chain, topology::skips, topology::dense})
          for (const int workers : {0, 1, 2, S - 1}) {
            if (!admits(choice, S, M) || workers > choice.workers(S)) continue;
            CAPTURE(name_of(choice.kind));
            CAPTURE(S);
            CAPTURE(M);
            CAPTURE(workers);
            CAPTURE(static_cast<int>(links));
            const schedule_choice schedule = workers <= 0 ? choice : choice.on_workers(workers);
            const net_of net(S, links);
            for (const bool transfers : {false, true}) {
              const plan_slots memory_slots(schedule, S, M, net, 1, transfers);
              for (const auto mode : {recompute_mode::never, recompute_mode::except_last})
                REQUIRE(run(schedule, S, M, mode, net, 1, memory_slots) == "no fault");
              REQUIRE(run(schedule.forwards(), S, M, recompute_mode::never, net, 1, memory_slots, false) == "no fault");
            }
          }
}

TEST_CASE("the same with the parameter parts of several micro-batches together") {
  for (int S = 1; S <= 8; ++S)
    for (int M = 1; M <= 12; ++M)
      for (const int group_gradients : {2, 4, 8}) {
        CAPTURE(S);
        CAPTURE(M);
        CAPTURE(group_gradients);
        const schedule_choice schedule(schedule_kind::fill_drain);
        const net_of net(S);
        const plan_slots memory_slots(schedule, S, M, net, group_gradients, false);
        REQUIRE(run(schedule, S, M, recompute_mode::never, net, group_gradients, memory_slots) == "no fault");
        REQUIRE(run(schedule.forwards(), S, M, recompute_mode::never, net, 1, memory_slots, false) == "no fault");
      }
}

TEST_CASE("two slots exchanged, a slot that memory does not have, or one slot for all: each is found") {
  const schedule_choice schedule(schedule_kind::one_f_one_b);
  const net_of net(4);
  int found = 0, tried = 0;
  for (int i = 0; i < net.count() * 8; ++i) {  // one micro-batch gets the slot of the next one
    plan_slots memory_slots(schedule, 4, 8, net, 1, false);
    const auto at = static_cast<std::size_t>(i);
    if (i % 8 == 7 || memory_slots.stash[at] == memory_slots.stash[at + 1]) continue;
    memory_slots.stash[at] = memory_slots.stash[at + 1];
    ++tried;
    found += run(schedule, 4, 8, recompute_mode::never, net, 1, memory_slots) != "no fault";
  }
  CHECK(tried > 20);
  CHECK(found >= tried / 2);  // a wait more may be no circle

  plan_slots memory_slots(schedule, 4, 8, net, 1, false);
  memory_slots.copies[0] = 1;
  CHECK(run(schedule, 4, 8, recompute_mode::never, net, 1, memory_slots) == "stash: worker 0 at line 3, 0F1 (forward)");
  memory_slots = plan_slots(schedule, 4, 8, net, 1, false);
  memory_slots.stash.assign(memory_slots.stash.size(), 0);
  CHECK(run(schedule, 4, 8, recompute_mode::never, net, 1, memory_slots) ==
        "deadlock: worker 0 at line 3, 0F1 (forward)");
  const schedule_choice alone = schedule.on_workers(1);
  CHECK(run(alone, 4, 8, recompute_mode::never, net, 1, memory_slots) == "stash: worker 0 at line 2, 0F1 (forward)");
}
