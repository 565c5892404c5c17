#include <gpipe/plan/recompute/recompute_search.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <vector>

#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/normalization/layer_norm.hpp>
#include <gpipe/model/model.hpp>
#include <gpipe/plan/cut/choose_cut.hpp>

#include "support/cuts_and_layers.hpp"
#include "support/random_network.hpp"

using namespace gpipe;
using namespace gpipe::detail;
using nets::all_choices, nets::choice, nets::cuts_and_layers, nets::random_network;

TEST_CASE("a stage recomputes what takes the least time of all choices that fit its limit") {
  std::mt19937 random(20240501);
  int by_layer = 0, whole = 0, refused = 0, more = 0;
  for (int i = 0; i < 3000; ++i) {
    CAPTURE(i);
    const auto below = [&random](int limit) { return static_cast<int>(random() % static_cast<unsigned>(limit)); };
    const int layers = 3 + below(6);
    const random_network drawn(random, layers, below(3) > 0);
    const schedule_kind kinds[] = {schedule_kind::fill_drain, schedule_kind::one_f_one_b, schedule_kind::zb_h1};
    const plan_options o{.stages = 1 + below((std::min)(layers, 3)),
                         .micro_batches = 1 + below(6),
                         .micro_batch_size = 1,
                         .schedule = kinds[below(3)]};
    std::vector<layer_cost> costs;
    for (int l = 0; l < layers; ++l) costs.push_back({below(9), below(9), below(9)});
    const stage_costs of{costs.data(), layers, false};
    std::vector<int> first{0};
    for (int s = 1; s < o.stages; ++s) first.push_back(first.back() + 1 + below(layers - o.stages - first.back() + s));
    first.push_back(layers);
    const int stage = below(o.stages);
    std::vector<memory_requirements> needs;
    for (int s = 0; s < o.stages; ++s) needs.push_back(requirements_of(o.chosen_schedule(), o, s));
    const std::vector<choice> all = all_choices(drawn.net, o, of, first, stage, needs[static_cast<std::size_t>(stage)]);
    recompute_search search(drawn.net, o, of, needs.data());
    const std::int64_t limit = all[random() % all.size()].bytes - below(2);
    std::int64_t best = no_memory_limit, least = no_memory_limit;
    for (const choice& c : all) {
      least = (std::min)(least, c.bytes);
      if (c.bytes <= limit) best = (std::min)(best, c.time);
    }
    const std::int64_t sufficient = search.sufficient_bytes(first.data(), stage);
    REQUIRE(sufficient >= least);
    REQUIRE(search.decide(first.data(), stage, sufficient).fits);
    if (sufficient > least) ++more;
    const stage_recompute found = search.decide(first.data(), stage, limit);
    REQUIRE(found.fits == (best != no_memory_limit));
    if (!found.fits) {
      ++refused;
      REQUIRE(search.least_bytes(first.data(), stage) == least);
      continue;
    }
    REQUIRE(found.bytes <= limit);
    REQUIRE(found.time == best);
    REQUIRE(found.min == best);
    by_layer += found.by_layer;
    whole += !found.by_layer && found.time > 0;
    memory_requirements with = needs[static_cast<std::size_t>(stage)];
    with.kept_copies = found.working_sets;
    const stage_view view(drawn.net, {first.data(), o.stages, search.before()}, stage);
    REQUIRE(memory_of(view, with).total() == found.bytes);
    REQUIRE((view.first_recomputed() >= 0) == found.by_layer);
  }
  CHECK(by_layer > 500);
  CHECK(whole > 200);
  CHECK(refused > 500);
  CHECK(more < 800);
}

namespace {

struct linear_net : model<input<float, 64>, repeat<12, layer_norm, linear<64>, relu>> {};

}  // namespace

TEST_CASE("the bytes that suffice for a stage fit in every mode, with each choice of packed weights") {
  const network& net = network_of<linear_net>;
  const int first[] = {0, 4, 36};  // a stage whose choices are all tried, and one with too many for that
  int on_the_way = 0, cases = 0;
  for (const device_spec& device : {this_cpu, h100})
    for (const recompute_mode mode : {recompute_mode::as_needed, recompute_mode::never, recompute_mode::always})
      for (const schedule_kind schedule : {schedule_kind::fill_drain, schedule_kind::one_f_one_b, schedule_kind::zb_h1})
        for (const int rows : {8, 64, 1024})
          for (const int packed : {0, 1, 2}) {
            const plan_options o{.stages = 2,
                                 .micro_batches = 6,
                                 .micro_batch_size = rows,
                                 .recompute = mode,
                                 .schedule = schedule,
                                 .share_packed_weights = packed == 1,
                                 .keep_packed_weights = packed == 2,
                                 .device = device};
            CAPTURE(device.name);
            CAPTURE(name_of(mode));
            CAPTURE(name_of(schedule));
            CAPTURE(rows);
            CAPTURE(packed);
            std::vector<layer_cost> costs(static_cast<std::size_t>(cost_count(net, o)));
            const stage_costs each = fill_costs(net, o, costs.data());
            std::vector<memory_requirements> needs;
            for (int s = 0; s < 2; ++s) needs.push_back(requirements_of(o.chosen_schedule(), o, s));
            recompute_search search(net, o, each, needs.data());
            for (int s = 0; s < 2; ++s) {
              const std::int64_t bytes = search.sufficient_bytes(first, s);
              const stage_recompute found = search.decide(first, s, bytes);
              CHECK(found.fits);
              const std::int64_t least = search.least_bytes(first, s);
              CHECK(bytes >= least);
              // As needed a chain of layers without joins is the worst case.
              CHECK(10 * bytes <= (mode == recompute_mode::as_needed ? 21 : 10) * least);
              on_the_way += found.packed == packed_weights::on_the_way;
              ++cases;
            }
          }
  CHECK(on_the_way > cases / 4);
}

// 10,000 small instances: the cut and the layers together, against all cuts and all layers.
TEST_CASE("under a limit the cut is the best of all cuts with the best layers of each stage") {
  std::mt19937 random(20240502);
  int bound = 0, refused = 0;
  for (int i = 0; i < 10'000; ++i) {
    CAPTURE(i);
    const cuts_and_layers it(random);
    const plan_options& o = it.o;
    const std::int64_t best = it.best_bottleneck();
    std::vector<int> first(static_cast<std::size_t>(o.stages) + 1);
    const cut_search found = search_cut(it.drawn.net, o, o.chosen_schedule(), it.each(), first.data());
    REQUIRE(found.fits == (best != no_memory_limit));
    REQUIRE(found.whole);
    refused += !found.fits;
    if (!found.fits) continue;
    REQUIRE(found.min == best);
    REQUIRE(it.bottleneck_of(first) == best);
    plan_options free = o;
    free.memory_limit = no_memory_limit;
    bound += best > search_cut(it.drawn.net, free, o.chosen_schedule(), it.each(), first.data()).min;
  }
  CHECK(bound > 1000);
  CHECK(refused > 1000);
}

TEST_CASE("a probed cut obeys its limits, and its slowest stage is near the best of all cuts") {
  std::mt19937 random(20240503);
  int found = 0, best = 0;
  double worst = 1;
  for (int i = 0; i < 300; ++i) {
    CAPTURE(i);
    const auto below = [&random](int limit) { return static_cast<int>(random() % static_cast<unsigned>(limit)); };
    const int layers = 8 + below(8);
    const random_network drawn(random, layers, false);
    plan_options o{.stages = 2 + below(3),
                   .micro_batches = 4 + below(5),
                   .micro_batch_size = 1,
                   .schedule = schedule_kind::one_f_one_b};
    std::vector<layer_cost> costs;
    for (int l = 0; l < layers; ++l) costs.push_back({100 + below(900), 100 + below(900), 100 + below(900)});
    const stage_costs of{costs.data(), layers, false};
    std::vector<memory_requirements> needs;
    for (int s = 0; s < o.stages; ++s) needs.push_back(requirements_of(o.chosen_schedule(), o, s));
    std::vector<int> first(static_cast<std::size_t>(o.stages) + 1), probed = first;
    const std::int64_t least = min_memory_limit(
        drawn.net,
        [&] {
          plan_options none = o;
          none.memory_limit = 1;
          return none;
        }(),
        o.chosen_schedule(), of);
    o.memory_limit = least + least * below(40) / 100;
    const cut_search searched = search_cut(drawn.net, o, o.chosen_schedule(), of, first.data());
    REQUIRE(searched.fits);
    recompute_search search(drawn.net, o, of, needs.data());
    const std::vector<std::int64_t> limits(static_cast<std::size_t>(o.stages), o.memory_limit);
    with_problem(drawn.net, o, o.chosen_schedule(), of, [&](const partition_problem& problem) {
      if (!probed_cut(problem, limits.data(), search).find(probed.data())) return 0;
      ++found;
      memory_limited_cut exact(problem, drawn.net, needs.data(), limits.data(), memory_limited_cut::goal::objective,
                               &search);
      const std::int64_t reached = exact.objective_within(probed.data());
      REQUIRE(reached != unlimited);
      REQUIRE(reached >= searched.min);
      best += reached == searched.min;
      worst = (std::max)(worst, static_cast<double>(reached) / static_cast<double>(searched.min));
      return 0;
    });
  }
  CHECK(found > 250);
  CHECK(best > 200);
  CHECK(worst < 2);
}

TEST_CASE("decisions for a model of many layers are found again") {
  std::mt19937 random(7);
  constexpr int layers = 70'000;
  const random_network drawn(random, layers, false);
  const plan_options o{.stages = 2, .micro_batches = 2, .recompute = recompute_mode::as_needed};
  std::vector<layer_cost> all(static_cast<std::size_t>(cost_count(drawn.net, o)));
  const stage_costs costs = fill_costs(drawn.net, o, all.data());
  const memory_requirements needs[] = {requirements_of(o.chosen_schedule(), o, 0),
                                       requirements_of(o.chosen_schedule(), o, 1)};
  recompute_search search(drawn.net, o, costs, needs);
  for (const int middle : {10'000, 40'000}) {  // 40,000 x 70,000 exceeds 31 bits
    const int first[] = {0, middle, layers};
    for (const int stage : {0, 1, 0, 1}) {
      const stage_recompute decided = search.decide(first, stage, no_memory_limit);
      CHECK(decided.fits);
      CHECK(decided.working_sets >= 1);
    }
  }
}
