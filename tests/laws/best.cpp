// optimize: yes
// sanitizers: none

#include <gpipe/tools/best/find_best.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <vector>

#include <gpipe/layer/activation/gelu.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/normalization/layer_norm.hpp>
#include <gpipe/model/model.hpp>
#include <gpipe/plan/cut/simulated_cut.hpp>
#include <gpipe/plan/cut/stage_costs.hpp>
#include <gpipe/tools/best/estimates.hpp>

#include "support/random_network.hpp"

using namespace gpipe;

namespace {

struct narrow : model<input<float, 8>, linear<32>, gelu, linear<8>, linear<8>> {};
struct normed : model<input<float, 16>, linear<64>, layer_norm, gelu, linear<16>, linear<4>> {};
struct wide : model<input<float, 4>, linear<8>, linear<128>, linear<8>, gelu, linear<64>> {};

/// The shortest step of all plans of a space and all their cuts, without any bound; -1: none fits.
std::int64_t shortest(const network& net, const plan_space& of, plan_options o) {
  o.cost_transfers = o.cost_parameters = true;
  o.device.memory_limit = o.memory_limit;
  o.memory_limit = no_memory_limit;
  std::int64_t best = -1;
  for (int R = 1; R <= of.devices && R <= of.batch; ++R)
    for (int K = 1; R * K <= of.devices; ++K)
      for (int M = 1; M <= of.batch; ++M)
        for (const schedule_kind kind : schedule_kinds)
          for (int chunks = 2; chunks <= 4; ++chunks) {
            const int samples = (of.batch + R - 1) / R, B = (samples + M - 1) / M;
            o.schedule = kind, o.chunks = chunks, o.replicas = R, o.micro_batches = M, o.micro_batch_size = B;
            o.stages = K * stages_per_worker(kind, chunks);
            if (kind == schedule_kind::forward_only || (K == 1 && stages_per_worker(kind) > 1) ||
                o.stages > net.layer_count || o.max_workers() != K)
              continue;
            for (const warmup_kind warmup : {warmup_kind::shortest, warmup_kind::longest}) {
              o.warmup = warmup;
              std::vector<layer_cost> all(static_cast<std::size_t>(detail::cost_count(net, o)));
              const stage_costs costs = detail::fill_costs(net, o, all.data());
              const detail::cut_simulator simulator(net, o, costs);
              nets::each_cut(net.layer_count, o.stages, [&](const std::vector<int>& first) {
                const std::int64_t step = simulator.step_of(first.data());
                if (step == detail::unlimited) return;
                std::vector<std::int64_t> bytes(static_cast<std::size_t>(K));
                for (int s = 0; s < o.stages; ++s)
                  for (int l = first[static_cast<std::size_t>(s)]; l < first[static_cast<std::size_t>(s) + 1]; ++l)
                    bytes[static_cast<std::size_t>(o.chosen_schedule().worker_of(o.stages, s))] +=
                        static_cast<std::int64_t>(net.own_bytes(l));
                const std::int64_t update =
                    detail::update_time(*std::max_element(bytes.begin(), bytes.end()), o, o.device);
                if (best < 0 || step + update < best) best = step + update;
              });
              if (kind != schedule_kind::interleaved) break;
            }
          }
  return best;
}

}  // namespace

TEST_CASE("the best plan is that of all plans and all cuts of small spaces") {
  std::mt19937 random(38);
  const auto below = [&](int limit) { return static_cast<int>(random() % static_cast<unsigned>(limit)); };
  const network* const nets[] = {&network_of<narrow>, &network_of<normed>, &network_of<wide>};
  int fitting = 0;
  constexpr int spaces = 2'000;
  for (int i = 0; i < spaces; ++i) {
    const network& net = *nets[below(3)];
    const plan_space of{.devices = 1 + below(3), .batch = 1 + below(4)};
    plan_options o{.optimizer_moments = below(3)};
    o.device.launch_ns = 1 << below(12);
    o.device.link_latency_ns = 1 << below(14);
    o.device.memory_bytes_per_second = std::int64_t{1'000'000'000} << below(6);
    if (below(3) > 0) o.memory_limit = 4'000 + below(20'000);
    const std::int64_t least = shortest(net, of, o);
    CAPTURE(i);
    if (least < 0) {
      CHECK_THROWS_AS(find_best(net, of, o), error);
      continue;
    }
    const best_plan found = find_best(net, of, o, 100);
    CHECK(found.step == least);
    CHECK(found.min <= least);
    CHECK(found.open == 0);
    ++fitting;
  }
  MESSAGE(fitting, " of ", spaces, " fit");
  CHECK(fitting > spaces / 2);
}

TEST_CASE("the best plan of random networks, in which values skip layers, is that of all plans and all cuts") {
  std::mt19937 random(39);
  const auto below = [&](int limit) { return static_cast<int>(random() % static_cast<unsigned>(limit)); };
  int fitting = 0;
  constexpr int spaces = 500;
  for (int i = 0; i < spaces; ++i) {
    const int layers = 1 + below(5);
    nets::random_network drawn(random, layers, below(2) == 0);
    for (detail::layer_type& row : drawn.rows) {
      row.cost = {1'000LL * below(200), 1'000LL * below(200), 1'000LL * below(200), below(4'000)};
      row.cost.kind = below(2) == 0 ? work_kind::product : work_kind::other;
    }
    const plan_space of{.devices = 1 + below(3), .batch = 1 + below(4)};
    plan_options o{.optimizer_moments = below(3)};
    if (below(3) > 0) o.memory_limit = 4'000 + below(60'000);
    const std::int64_t least = shortest(drawn.net, of, o);
    CAPTURE(i);
    if (least < 0) {
      CHECK_THROWS_AS(find_best(drawn.net, of, o, 100), error);
      continue;
    }
    const best_plan found = find_best(drawn.net, of, o, 100);
    CHECK(found.step == least);
    CHECK(found.min <= least);
    ++fitting;
  }
  MESSAGE(fitting, " of ", spaces, " fit");
  CHECK(fitting > spaces / 2);
}
