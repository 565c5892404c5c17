#include <gpipe/plan/choose_lead.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/model/model.hpp>
#include <gpipe/plan/plan.hpp>
#include <gpipe/plan/make_plan.hpp>
#include <gpipe/plan/summary.hpp>

#include "support/layers.hpp"

using namespace gpipe;
using namespace laws;

namespace {

/// Layers of equal cost, whose backward has no parameter part in which a transfer could hide.
struct even : model<input<float, 1>, linear<4096>, repeat<8, relu>, passing_loss> {};

constexpr device_spec with_latency(std::int64_t ns) {
  device_spec device = this_cpu;
  device.link_latency_ns = ns;
  return device;
}
constexpr device_spec slow = with_latency(2000);

plan_options options(const device_spec& device) {
  return {.stages = 8,
          .micro_batches = 16,
          .micro_batch_size = 8,
          .recompute = recompute_mode::never,
          .schedule = schedule_kind::interleaved,
          .device = device,
          .cost_transfers = true};
}
lead_kind chosen(const plan_options& o) { return make_plan(network_of<even>, o).options.lead; }

std::int64_t largest_stage(plan_options o, lead_kind kind, const std::vector<int>& cut = {}) {
  o.lead = kind;
  std::int64_t largest = 0;
  for (const stage_plan& s : make_plan(network_of<even>, o, cut).stage_plans)
    largest = (std::max)(largest, s.memory.total());
  return largest;
}

}  // namespace

TEST_CASE("the longest lead is chosen if its step is shorter and fits the memory limit") {
  plan_options o = options(slow);
  CHECK(chosen(o) == lead_kind::longest);
  const auto step = [&](lead_kind kind) {
    plan_options it = o;
    it.lead = kind;
    return step_time(network_of<even>, make_plan(network_of<even>, it));
  };
  CHECK(step(lead_kind::automatic) == step(lead_kind::longest));
  CHECK(step(lead_kind::longest) < step(lead_kind::shortest));

  const std::int64_t fewer = largest_stage(o, lead_kind::shortest), more = largest_stage(o, lead_kind::longest);
  REQUIRE(fewer < more);
  o.memory_limit = more;
  CHECK(chosen(o) == lead_kind::longest);
  o.memory_limit = more - 1;
  CHECK(chosen(o) == lead_kind::shortest);
}

TEST_CASE("the shortest lead is chosen if transfers have no cost, and what the user chose stays") {
  plan_options o = options(slow);
  for (const lead_kind kind : {lead_kind::shortest, lead_kind::longest}) {
    o.lead = kind;
    CHECK(chosen(o) == kind);
  }
  o.lead = lead_kind::automatic;
  o.cost_transfers = false;
  CHECK(make_plan(network_of<even>, o).options.chosen_schedule().in_flight(8, 16, 0) == interleaved{2}.in_flight(8, 16, 0));
  CHECK(choose_lead(network_of<even>, o) == lead_kind::automatic);
}

TEST_CASE("a cut by hand counts, and the summary names the lead") {
  const int unequal[] = {0, 2, 3, 4, 5, 6, 7, 8, network_of<even>.slot_count};
  plan_options o = options(slow);
  CHECK(choose_lead(network_of<even>, o, unequal) == lead_kind::longest);
  o.memory_limit = largest_stage(o, lead_kind::longest, {2, 3, 4, 5, 6, 7, 8});
  CHECK(choose_lead(network_of<even>, o, unequal) == lead_kind::longest);
  --o.memory_limit;
  CHECK(choose_lead(network_of<even>, o, unequal) == lead_kind::shortest);
  CHECK(describe(network_of<even>, make_plan(network_of<even>, options(slow))).find("lead longest") !=
        std::string::npos);
}

namespace {

template <class... More>
using compiled = plan<even, stages<8>, micro_batches<16>, micro_batch_size<8>, recompute<recompute_mode::never>,
                      schedule<interleaved>, with_transfers, More...>;
static_assert(compiled<on_device<slow>>::schedule.lead == lead_kind::longest);
static_assert(compiled<on_device<slow>>::options.lead == lead_kind::longest);
static_assert(compiled<on_device<slow>, lead<lead_kind::shortest>>::schedule.lead == lead_kind::shortest);

}  // namespace
