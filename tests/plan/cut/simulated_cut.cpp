#include <gpipe/plan/cut/simulated_cut.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <vector>

#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/model/model.hpp>
#include <gpipe/plan/summary.hpp>

#include "support/random_network.hpp"

using namespace gpipe;
using namespace gpipe::detail;

namespace {

template <int... Widths>
struct net : model<input<float, 16>, linear<Widths>...> {};

constexpr recompute_mode modes[] = {recompute_mode::never, recompute_mode::always, recompute_mode::except_last,
                                    recompute_mode::as_needed};

/// A random plan of a random network: one kind of device, or one for each stage.
struct instance {
  nets::random_network drawn;
  plan_options o;
  bool each;
  std::vector<layer_cost> all;
  stage_costs costs;
  nets::stage_limits each_limit;

  static int below(std::mt19937& random, int limit) {
    return static_cast<int>(random() % static_cast<unsigned>(limit));
  }
  instance(std::mt19937& random, schedule_kind kind, int layers, int fixed = 0, int beside = -1)
      : drawn(random, layers, below(random, 2) == 0, fixed, beside),
        each(below(random, 2) == 0),
        each_limit(random, layers, below(random, 2) == 0) {
    o = {.stages = 1 + below(random, layers < 5 ? layers : 5),
         .micro_batches = 1 + below(random, 6),
         .micro_batch_size = 1,
         .recompute = modes[below(random, 4)],
         .schedule = kind};
    for (int l = 0; l < (each ? o.stages : 1) * layers; ++l)
      all.push_back({below(random, 20), below(random, 20), below(random, 20)});
    costs = {all.data(), layers, each};
  }
  /// No limit, and one that some cuts obey.
  std::vector<std::int64_t> limits(std::mt19937& random) const {
    std::vector<std::int64_t> bytes;
    nets::each_cut(drawn.net.layer_count, o.stages, [&](const std::vector<int>& first) {
      std::int64_t max = 0;
      for (int s = 0; s < o.stages; ++s) {
        const stage_view stage(drawn.net, {first.data(), o.stages}, s);
        max =
            (std::max)(max, each_limit.least(s, memory_of(stage, requirements_of(o.chosen_schedule(), o, s)).total()));
      }
      bytes.push_back(max);
    });
    return {no_memory_limit, bytes[random() % bytes.size()] + below(random, 2) * below(random, 4000)};
  }
};

/// The plan's cut by the steps of `make_plan`, its step, and its quality.
struct planned {
  std::vector<int> first;
  std::int64_t step = 0;
  cut_quality quality;

  explicit planned(const instance& it) : first(static_cast<std::size_t>(it.o.stages) + 1) {
    const cut_search found = search_cut(it.drawn.net, it.o, it.o.chosen_schedule(), it.costs, first.data());
    REQUIRE(found.fits);
    shorten_step(it.drawn.net, it.o, it.costs, found.whole, first.data());
    step = nets::step_of(it.drawn.net, it.o, it.costs, first);
    quality = quality_of_cut(it.drawn.net, it.o, it.costs, first.data());
    REQUIRE(quality.step == step);
  }
};

}  // namespace

TEST_CASE("a step that must be shorter than another is the same, or none: what ends early is not shorter") {
  std::mt19937 random(8);
  int same = 0, none = 0;
  for (int i = 0; i < 600; ++i) {
    CAPTURE(i);
    instance it(random, schedule_kinds[static_cast<std::size_t>(instance::below(random, 11))],
                2 + instance::below(random, 6));
    if (!it.o.chosen_schedule().admits(it.o.stages, it.o.micro_batches)) continue;
    for (const std::int64_t limit : it.limits(random)) {
      it.each_limit.set(it.o, limit);
      const cut_simulator simulator(it.drawn.net, it.o, it.costs);
      nets::each_cut(it.drawn.net.layer_count, it.o.stages, [&](const std::vector<int>& first) {
        const std::int64_t step = simulator.step_of(first.data());
        if (step == unlimited) return;
        REQUIRE(simulator.step_of(first.data(), step + 1) == step);
        const std::int64_t shorter = simulator.step_of(first.data(), step / 2 + 1);
        REQUIRE((shorter == step || shorter == unlimited));
        ++(shorter == step ? same : none);
      });
    }
  }
  CHECK(none > 1'000);
}

TEST_CASE("the cut of fill-drain has the shortest simulated step of all cuts, in every mode and under every limit") {
  std::mt19937 random(5);
  int bound[4]{};
  for (int i = 0; i < 800; ++i) {
    CAPTURE(i);
    const schedule_kind kind = i % 8 == 0 ? schedule_kind::forward_only : schedule_kind::fill_drain;
    instance it(random, kind, 2 + instance::below(random, 7));
    std::int64_t free = 0;
    for (const std::int64_t limit : it.limits(random)) {
      CAPTURE(limit);
      CAPTURE(name_of(it.o.recompute));
      it.each_limit.set(it.o, limit);
      const std::int64_t shortest = nets::shortest_step(it.drawn.net, it.o, it.costs);
      // The search alone, as at compile time.
      std::vector<int> first(static_cast<std::size_t>(it.o.stages) + 1);
      const cut_search found = search_cut(it.drawn.net, it.o, it.o.chosen_schedule(), it.costs, first.data());
      REQUIRE(found.fits);
      REQUIRE(found.whole);
      REQUIRE(nets::step_of(it.drawn.net, it.o, it.costs, first) == shortest);
      REQUIRE(found.min == shortest);
      const planned plan(it);
      REQUIRE(plan.first == first);
      REQUIRE(plan.quality.proven);
      REQUIRE(plan.quality.min == shortest);
      if (limit == no_memory_limit) free = shortest;
      else bound[static_cast<int>(it.o.recompute)] += shortest > free;
    }
  }
  for (const int count : bound) CHECK(count > 10);  // limits that cost time
}

TEST_CASE("the cut of any schedule has the shortest simulated step if the cuts are few") {
  std::mt19937 random(6);
  int tried[6]{}, shorter = 0, fixed = 0, known = 0;
  for (int i = 0; i < 600; ++i) {
    CAPTURE(i);
    const schedule_kind kind = schedule_kinds[static_cast<std::size_t>(i) % 6];
    // Some layers have no gradient, or do not read the layer before: then fill-drain is simulated, too.
    const int layers = 3 + instance::below(random, 5), odd = instance::below(random, 3);
    instance it(random, kind, layers, odd == 0 ? instance::below(random, layers) : 0,
                odd == 1 ? 1 + instance::below(random, layers - 1) : -1);
    if (!it.o.chosen_schedule().admits(it.o.stages, it.o.micro_batches)) continue;
    it.o.cost_transfers = i % 5 == 0;
    for (const std::int64_t limit : it.limits(random)) {
      CAPTURE(name_of(kind));
      it.each_limit.set(it.o, limit);
      const std::int64_t shortest = nets::shortest_step(it.drawn.net, it.o, it.costs);
      const planned plan(it);
      REQUIRE(plan.step == shortest);
      REQUIRE(plan.quality.proven);
      REQUIRE(plan.quality.min == shortest);
      ++tried[i % 6];
      std::vector<int> first(static_cast<std::size_t>(it.o.stages) + 1);
      search_cut(it.drawn.net, it.o, it.o.chosen_schedule(), it.costs, first.data());
      shorter += nets::step_of(it.drawn.net, it.o, it.costs, first) > shortest;
      // The quality on a cut by hand is exact, and no bound is above the shortest step.
      int cuts = 0;
      nets::each_cut(layers, it.o.stages, [&](const std::vector<int>& by_hand) {
        if (cuts++ % 7 != 0) return;
        const std::int64_t step = nets::step_of(it.drawn.net, it.o, it.costs, by_hand);
        if (step == nets::no_step) return;
        const cut_quality quality = quality_of_cut(it.drawn.net, it.o, it.costs, by_hand.data());
        REQUIRE(quality.step == step);
        REQUIRE(quality.min == shortest);
      });
      REQUIRE(lower_bound_of(it.drawn.net, it.o, it.o.chosen_schedule(), it.costs) <= shortest);
      const std::int64_t min = detail::min_step(it.drawn.net, it.o, it.costs);
      REQUIRE(min <= shortest);
      fixed += odd == 0 && kind == schedule_kind::fill_drain && it.o.stages > 1;
      known += odd == 0 && kind == schedule_kind::fill_drain && it.o.stages > 1 && min == shortest;
    }
  }
  for (const int count : tried) CHECK(count > 20);
  CHECK(shorter > 50);
  CHECK(4 * known > fixed);  // with layers that no gradient reaches, the optimum is often known without simulation
}

TEST_CASE("as needed: what a stage recomputes decides between cuts") {
  std::mt19937 random(8);
  for (int i = 0; i < 400; ++i) {
    CAPTURE(i);
    instance it(random, schedule_kind::fill_drain, 8);
    it.o.recompute = recompute_mode::as_needed;
    it.o.micro_batches += 4;
    it.each_limit.set(it.o, it.limits(random).back());
    REQUIRE(planned(it).step == nets::shortest_step(it.drawn.net, it.o, it.costs));
  }
}

TEST_CASE("with many cuts boundaries move while the step gets shorter") {
  std::mt19937 random(7);
  int moved = 0;
  for (int i = 0; i < 20; ++i) {
    instance it(random, schedule_kind::one_f_one_b, 40);
    it.o.stages = 5;
    it.o.micro_batches = 8;
    while (it.all.size() < 5 * 40) it.all.push_back(it.all[it.all.size() - 40]);
    it.costs.costs = it.all.data();
    std::vector<int> first(6);
    search_cut(it.drawn.net, it.o, it.o.chosen_schedule(), it.costs, first.data());
    const std::int64_t before = nets::step_of(it.drawn.net, it.o, it.costs, first);
    const planned plan(it);
    REQUIRE(plan.step <= before);
    moved += plan.step < before;
    REQUIRE(plan.quality.cuts == 0);
    REQUIRE(plan.quality.proven == (plan.step == plan.quality.min));
    for (std::size_t s = 1; s < 5; ++s)
      for (const int by : {-1, 1}) {  // no single move helps
        std::vector<int> other = plan.first;
        other[s] += by;
        if (other[s] > other[s - 1] && other[s] < other[s + 1])
          REQUIRE(nets::step_of(it.drawn.net, it.o, it.costs, other) >= plan.step);
      }
  }
  CHECK(moved > 5);
}

TEST_CASE("recompute always: the second forward is no part of the ramp") {
  constexpr measured_layer lines[] = {{0, "linear", 1, 8, 0}, {1, "linear", 9, 2, 0}, {2, "linear", 3, 4, 0}};
  plan_options o{.stages = 2, .micro_batches = 1, .micro_batch_size = 4, .recompute = recompute_mode::always};
  o.profile = {lines, 3, 4};
  const network& it = network_of<net<8, 8, 8>>;
  CHECK(step_time(it, make_plan(it, o, {1})) == 39'000);
  CHECK(make_plan(it, o).first[1] == 2);
  CHECK(step_time(it, make_plan(it, o)) == 30'000);
}

TEST_CASE("as needed: the stage without memory for its working sets gets less to do") {
  constexpr measured_layer lines[] = {{0, "linear", 7, 0, 0}, {1, "linear", 9, 3, 0}, {2, "linear", 7, 2, 0}};
  plan_options o{.stages = 2,
                 .micro_batches = 2,
                 .micro_batch_size = 40,
                 .recompute = recompute_mode::as_needed,
                 .optimizer_moments = 1};
  o.profile = {lines, 3, 40};
  o.memory_limit = 61'984;
  o.keep_packed_weights = true;
  const network& it = network_of<net<32, 32, 16>>;
  CHECK(step_time(it, make_plan(it, o, {2})) == 54'000);
  CHECK(make_plan(it, o).first[1] == 1);
  CHECK(step_time(it, make_plan(it, o)) == 49'000);
}

TEST_CASE("except-last on unequal devices: the sum has no second forward") {
  struct narrow : model<input<float, 64>, linear<8>, linear<32>, linear<16>> {};
  device_spec each[] = {this_cpu, this_cpu};
  each[0].float32 = 2'000'000'000, each[0].memory_bytes_per_second = 4'000'000'000, each[0].launch_ns = 0;
  each[1].float32 = 9'000'000'000, each[1].memory_bytes_per_second = 6'000'000'000, each[1].launch_ns = 578;
  plan_options o{.stages = 2, .micro_batches = 2, .micro_batch_size = 2, .recompute = recompute_mode::except_last};
  o.devices = each;
  o.device_count = 2;
  const network& it = network_of<narrow>;
  CHECK(step_time(it, make_plan(it, o, {2})) == 14'623'777);
  CHECK(make_plan(it, o).first[1] == 1);
  CHECK(step_time(it, make_plan(it, o)) == 14'497'324);
}

TEST_CASE("between devices of one process the cut may cross any edge: no cut without transfers has a shorter step") {
  std::mt19937 random(11);
  int shorter = 0;
  for (int i = 0; i < 20; ++i) {
    instance it(random, schedule_kind::one_f_one_b, 31);
    std::vector<device_spec> each;
    for (int s = 0; s < 12; ++s) each.push_back(this_cpu.in_process(s / 6));
    it.o.stages = 12;
    it.o.micro_batches = 16;
    it.o.recompute = recompute_mode::never;
    it.o.memory_limit = no_memory_limit;
    it.o.devices = each.data(), it.o.device_count = 12;
    it.o.cost_transfers = true;
    std::vector<layer_cost> all;
    for (int s = 0; s < 12; ++s) all.insert(all.end(), it.all.begin(), it.all.begin() + 31);
    it.costs = {all.data(), 31, true};
    plan_options free = it.o;
    free.cost_transfers = false;
    std::vector<int> charged(13), other(13);
    search_cut(it.drawn.net, free, free.chosen_schedule(), it.costs, other.data());
    search_cut(it.drawn.net, it.o, it.o.chosen_schedule(), it.costs, charged.data());
    const std::int64_t before = nets::step_of(it.drawn.net, it.o, it.costs, other);
    shorter += before < nets::step_of(it.drawn.net, it.o, it.costs, charged);
    shorten_step(it.drawn.net, it.o, it.costs, true, charged.data());
    REQUIRE(nets::step_of(it.drawn.net, it.o, it.costs, charged) <= before);
  }
  CHECK(shorter > 0);
}
