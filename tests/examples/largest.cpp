// sanitizers: none
// optimize: yes
// check: whole

#include "../examples/plan/largest.hpp"

#include <doctest/doctest.h>

#include <initializer_list>

#include <gpipe/model/transformer.hpp>
#include <gpipe/model/vision/amoebanet.hpp>
#include <gpipe/model/vision/unet.hpp>

using namespace gpipe;
using namespace example;

namespace {

constexpr amoebanet_options small{.classes = 5, .side = 32, .channels = 1};

plan_options options(int stages, schedule_kind schedule) {
  return {.stages = stages,
          .micro_batches = 8,
          .micro_batch_size = 2,
          .recompute = recompute_mode::always,
          .schedule = schedule,
          .optimizer_moments = 1};
}

/// The smallest limit that any cut obeys.
std::int64_t min_limit(const network& net, plan_options o) {
  std::vector<layer_cost> list(static_cast<std::size_t>(net.layer_count));
  const stage_costs costs = gpipe::detail::fill_costs(net, o, list.data());
  o.memory_limit = 1;
  return min_memory_limit(net, o, o.chosen_schedule(), costs);
}

template <class Model>
void packs_well(double max_ratio, std::initializer_list<int> all = {1, 2, 3, 5}) {
  const network& net = network_of<Model>;
  for (const schedule_kind schedule : {schedule_kind::fill_drain, schedule_kind::one_f_one_b, schedule_kind::zb_h1})
    for (const int stages : all) {
      CAPTURE(stages);
      CAPTURE(name_of(schedule));
      const plan_options o = options(stages, schedule);
      const auto packed = static_cast<double>(largest_device_of(smallest_devices(net, o)));
      const auto min = static_cast<double>(min_limit(net, o));
      CHECK(packed <= max_ratio * min);
      CHECK(packed >= 0.99 * min);  // the search may end before it finds the least
    }
}

}  // namespace

TEST_CASE("packing from the last stage on comes close to the smallest limit that has a cut") {
  packs_well<transformer<6, 8, 16, 32, 2, 20>>(1.02);
  packs_well<amoebanet_d<3, 16, small>>(1.02, {2, 3});
  packs_well<unet<3, 4, 32>>(1.02);
}

TEST_CASE("the largest model fits, and one more repetition does not") {
  const network& net = network_of<amoebanet_d<12, 16, small>>;
  const family_member of{"", &net, repetitions_of(net), 12, 3};
  for (const schedule_kind schedule :
       {schedule_kind::fill_drain, schedule_kind::one_f_one_b, schedule_kind::interleaved, schedule_kind::zb_v}) {
    CAPTURE(name_of(schedule));
    const plan_options o = options(4 * stages_per_worker(schedule), schedule);
    const auto plan_of = [&](int more, std::int64_t limit) {
      const stretched made(net, of.parts, more);
      return packed_plan(made.net(), o, limit);
    };
    const std::int64_t limit = 3 * largest_device_of(smallest_devices(net, o));
    const largest_model found = largest_of(of, o, limit, 100);
    REQUIRE(found.more > 3);
    CHECK(found.whole);
    CHECK(found.largest_device <= limit);
    CHECK(found.largest_device > limit / 2);
    CHECK(plan_of(found.more, limit).has_value());
    CHECK(!plan_of(found.more + 1, limit).has_value());
    CHECK(found.parameters == network_of<amoebanet_d<12, 16, small>>.parameters() +
                                  static_cast<std::size_t>(found.more) *
                                      (network_of<amoebanet_d<15, 16, small>>.parameters() - net.parameters()));
  }
  // With 1F1B and short stages values skip stages, and only the plan counts all of their slots.
  plan_options o = options(24, schedule_kind::one_f_one_b);
  o.micro_batches = 64;
  const std::int64_t min = largest_device_of(smallest_devices(net, o));
  for (int percent = 100; percent < 200; ++percent)
    if (const auto packed = packed_plan(net, o, min * percent / 100))
      CHECK(largest_device_of(*packed) <= min * percent / 100);
  o = options(4, schedule_kind::fill_drain);
  CHECK(largest_of(of, o, 1000, 100).more == -1);         // not even the compiled one
  CHECK(!largest_of(of, o, 1'000'000'000'000, 7).whole);  // it ends at the most repetitions
  CHECK(largest_of(of, o, 1'000'000'000'000, 7).more == 7);
  const plan_options deep = options(800, schedule_kind::fill_drain);  // more stages than the compiled model has layers
  CHECK(largest_of(of, deep, 1'000'000'000, 0).more == -1);
  CHECK(largest_of(of, deep, 1'000'000'000, 1).more == 1);
}
