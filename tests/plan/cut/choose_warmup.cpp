#include <gpipe/plan/cut/choose_warmup.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/model/model.hpp>
#include <gpipe/plan/plan.hpp>
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
warmup_kind chosen(const plan_options& o) { return make_plan(network_of<even>, o).options.warmup; }

std::int64_t largest_stage(plan_options o, warmup_kind kind, const std::vector<int>& cut = {}) {
  o.warmup = kind;
  std::int64_t largest = 0;
  for (const stage_plan& s : make_plan(network_of<even>, o, cut).stage_plans)
    largest = (std::max)(largest, s.memory.total());
  return largest;
}

}  // namespace

TEST_CASE("the longest warm-up is chosen if its step is shorter and fits the memory limit") {
  plan_options o = options(slow);
  CHECK(chosen(o) == warmup_kind::longest);
  const auto step = [&](warmup_kind kind) {
    plan_options it = o;
    it.warmup = kind;
    return step_time(network_of<even>, make_plan(network_of<even>, it));
  };
  CHECK(step(warmup_kind::automatic) == step(warmup_kind::longest));
  CHECK(step(warmup_kind::longest) < step(warmup_kind::shortest));

  const std::int64_t fewer = largest_stage(o, warmup_kind::shortest), more = largest_stage(o, warmup_kind::longest);
  REQUIRE(fewer < more);
  o.memory_limit = more;
  CHECK(chosen(o) == warmup_kind::longest);
  o.memory_limit = more - 1;
  CHECK(chosen(o) == warmup_kind::shortest);

  o.memory_limit = no_memory_limit;
  o.device.memory_limit = 2 * more;  // a device has two stages
  CHECK(chosen(o) == warmup_kind::longest);
  --o.device.memory_limit;
  CHECK(chosen(o) == warmup_kind::shortest);
}

TEST_CASE("the shortest warm-up is chosen if transfers have no cost, and what the user chose stays") {
  plan_options o = options(slow);
  for (const warmup_kind kind : {warmup_kind::shortest, warmup_kind::longest}) {
    o.warmup = kind;
    CHECK(chosen(o) == kind);
  }
  o.warmup = warmup_kind::automatic;
  o.cost_transfers = false;
  CHECK(make_plan(network_of<even>, o).options.chosen_schedule().in_flight(8, 16, 0) ==
        interleaved{2}.in_flight(8, 16, 0));
  CHECK(choose_warmup(network_of<even>, o) == warmup_kind::automatic);
}

TEST_CASE("a cut by hand counts, and the summary names the warm-up") {
  const int unequal[] = {0, 2, 3, 4, 5, 6, 7, 8, network_of<even>.layer_count};
  plan_options o = options(slow);
  CHECK(choose_warmup(network_of<even>, o, unequal) == warmup_kind::longest);
  o.memory_limit = largest_stage(o, warmup_kind::longest, {2, 3, 4, 5, 6, 7, 8});
  CHECK(choose_warmup(network_of<even>, o, unequal) == warmup_kind::longest);
  --o.memory_limit;
  CHECK(choose_warmup(network_of<even>, o, unequal) == warmup_kind::shortest);
  o.device.memory_limit = 2 * o.memory_limit;
  o.memory_limit = no_memory_limit;
  CHECK(choose_warmup(network_of<even>, o, unequal) == warmup_kind::shortest);
  CHECK(describe(network_of<even>, make_plan(network_of<even>, options(slow))).find("warmup longest") !=
        std::string::npos);
}

namespace {

template <class... More>
using compiled = plan<even, stages<8>, micro_batches<16>, micro_batch_size<8>, recompute<recompute_mode::never>,
                      schedule<interleaved>, with_transfers, More...>;
static_assert(compiled<on_device<slow>>::schedule.warmup == warmup_kind::longest);
static_assert(compiled<on_device<slow>>::options.warmup == warmup_kind::longest);
static_assert(compiled<on_device<slow>, warmup<warmup_kind::shortest>>::schedule.warmup == warmup_kind::shortest);

}  // namespace
