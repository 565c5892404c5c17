// sanitizers: none
// optimize: yes
// check: whole

#include "../examples/plan/largest.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <initializer_list>
#include <vector>

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
    CHECK(found.plan.largest_device() <= limit);
    CHECK(found.plan.largest_device() > limit / 2);
    const auto whole = plan_of(found.more, limit);
    REQUIRE(whole.has_value());
    CHECK(largest_device_of(*whole) == found.plan.largest_device());
    CHECK(activations_of(*whole) == found.plan.activation_bytes());
    CHECK(!plan_of(found.more + 1, limit).has_value());
    CHECK(found.next.bytes > limit);
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

namespace {

constexpr schedule_kind some[] = {schedule_kind::fill_drain, schedule_kind::one_f_one_b, schedule_kind::interleaved,
                                  schedule_kind::zb_h1,      schedule_kind::v_half,      schedule_kind::v_min,
                                  schedule_kind::zb_2p};

}  // namespace

TEST_CASE("a model that is packed with recompute as needed has a plan of the library that obeys the same limits") {
  int by_layer = 0, whole = 0;
  const auto pack = [&](const network& net, int devices) {
    for (const schedule_kind schedule : some) {
      CAPTURE(name_of(schedule));
      plan_options o = options(devices * stages_per_worker(schedule), schedule);
      o.keep_packed_weights = true;  // else `always` may pack on the way where recompute as needed does not
      const std::int64_t always = largest_device_of(smallest_devices(net, o));
      o.keep_packed_weights = false;
      o.recompute = recompute_mode::as_needed;
      std::int64_t before = 0;
      for (const int percent : {60, 70, 80, 90, 100, 110, 130, 200}) {
        CAPTURE(percent);
        const std::int64_t limit = always * percent / 100;
        const auto found = packed(net, o, std::vector<std::int64_t>(static_cast<std::size_t>(devices), limit));
        CHECK((found.has_value() || percent < 110));
        CHECK((found.has_value() || before == 0));  // what fits a limit fits a larger one
        if (!found) continue;
        before = limit;
        by_layer += found->stages_with(recomputed::layers);
        whole += found->stages_with(recomputed::micro_batches);
        CHECK(found->largest_device() <= limit);
        const auto plan = packed_plan(net, o, limit);  // throws if the library's plan does not obey it
        REQUIRE(plan.has_value());
        CHECK(largest_device_of(*plan) <= limit);
      }
    }
  };
  pack(network_of<transformer<6, 8, 16, 32, 2, 20>>, 3);
  pack(network_of<amoebanet_d<3, 16, small>>, 2);
  pack(network_of<unet<3, 4, 32>>, 2);
  CHECK(by_layer > 10);
  CHECK(whole > 3);
}

TEST_CASE("the best of all configurations is the deepest of each alone, and the first that fits") {
  const network& net = network_of<amoebanet_d<12, 16, small>>;
  const family_member of{"", &net, repetitions_of(net), 12, 3};
  plan_options o = options(1, schedule_kind::fill_drain);
  for (const std::size_t devices : {std::size_t{1}, std::size_t{3}}) {
    CAPTURE(devices);
    o.stages = static_cast<int>(devices);
    const std::vector<std::int64_t> limits(devices, 2 * largest_device_of(smallest_devices(net, o)));
    const auto all = all_configurations(devices);
    const auto find = [&](const std::vector<configuration>& these) {
      return largest_search(of, o, limits).find(these, 100);
    };
    const largest_model best = find(all);
    REQUIRE(best.more > 0);
    int deepest = -1;
    bool first = true;
    for (const configuration& it : all) {
      const int more = find({it}).more;
      deepest = std::max(deepest, more);
      if (!first || more < best.more) continue;
      CHECK(it.schedule == best.with.schedule);
      CHECK(it.packed == best.with.packed);
      first = false;
    }
    CHECK(deepest == best.more);
    const largest_model before = find({{schedule_kind::fill_drain, recompute_mode::always, packed_copies::kept}});
    CHECK(static_cast<double>(best.parameters) > 1.2 * static_cast<double>(before.parameters));
    CHECK(best.plan.parameter_bytes() / static_cast<std::int64_t>(best.parameters) <
          before.plan.parameter_bytes() / static_cast<std::int64_t>(before.parameters));
  }
}

TEST_CASE("the device with the smallest limit runs out first, and shares leave room") {
  const network& net = network_of<transformer<6, 8, 16, 32, 2, 20>>;
  const family_member of{"", &net, repetitions_of(net), 6, 1};
  plan_options o = options(3, schedule_kind::one_f_one_b);
  const std::vector<configuration> one{{schedule_kind::one_f_one_b, recompute_mode::as_needed, packed_copies::shared}};
  const auto find = [&](const std::vector<std::int64_t>& limits) {
    return largest_search(of, o, limits).find(one, 1000);
  };
  const largest_model equal = find({300'000, 300'000, 300'000}), unequal = find({300'000, 200'000, 400'000});
  REQUIRE(equal.more > 0);
  REQUIRE(unequal.more > 0);
  const auto bytes = unequal.plan.bytes_of_devices();
  CHECK(bytes[1] <= 200'000);
  CHECK(bytes[2] > 300'000);
  CHECK(std::abs(unequal.more - equal.more) < 4);
  // A limit below one layer's bytes: that device lacks them, whatever the others have.
  const largest_model none = find({300'000, 300, 300'000});
  CHECK(none.more == -1);
  CHECK(none.next.device == 1);
  CHECK(none.next.bytes > 300);
  o.replicas = 4;
  const largest_model copies = find({300'000, 300'000, 300'000});
  CHECK(copies.more <= equal.more);
  o.shard = shard::optimizer_state;
  const largest_model shares = find({300'000, 300'000, 300'000});
  CHECK(shares.more > copies.more);
  o.replicas = 1;  // one replica keeps all
  CHECK(find({300'000, 300'000, 300'000}).more == equal.more);
}
