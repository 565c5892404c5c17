// optimize: yes

#include <gpipe/tools/best/choose_best.hpp>

#include <doctest/doctest.h>

#include <vector>

#include <gpipe/layer/activation/gelu.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/layer/normalization/batch_norm.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/model/model.hpp>
#include <gpipe/plan/summary.hpp>
#include <gpipe/tools/best/find_best.hpp>

using namespace gpipe;

namespace {

struct chosen_net : model<input<float, 64>, linear<256>, gelu, linear<256>, gelu, linear<256>, gelu, linear<256>, gelu,
                          linear<64>, softmax_cross_entropy> {};
const network& chosen_network = network_of<chosen_net>;

}  // namespace

TEST_CASE("a choice is a plan of the space, its step is that of the plan, and find_best's bound holds for it") {
  for (const std::int64_t limit : {no_memory_limit, std::int64_t{4'000'000}})
    for (const int devices : {1, 2, 4, 6})
      for (const int batch : {24, 96}) {
        CAPTURE(devices);
        CAPTURE(batch);
        const plan_space space{.devices = devices, .batch = batch};
        const best_choice chosen = choose_best(chosen_network, space, {.memory_limit = limit});
        if (limit != no_memory_limit && devices == 1) {
          CHECK_FALSE(chosen.fits());
          continue;
        }
        REQUIRE(chosen.fits());
        const plan_candidate& it = chosen.winner;
        CHECK(it.replicas * it.workers <= devices);
        CHECK(it.replicas * it.micro_batches * it.micro_batch_size >= batch);
        CHECK(it.stages * it.micro_batches <= detail::max_chosen_cells);
        const plan_options o = it.in(detail::options_of_search({.memory_limit = limit}));
        const std::vector<int> cut(chosen.first + 1, chosen.first + it.stages);
        const step_plan made = make_plan(chosen_network, o, cut);
        CHECK(it.step == step_time(chosen_network, made) + chosen.update);
        CHECK(chosen.min <= it.step);
        const best_plan best = find_best(chosen_network, space, {.memory_limit = limit});
        CHECK(best.min <= it.step);
        CHECK(static_cast<double>(it.step) <= 1.25 * static_cast<double>(best.step));
      }
}

TEST_CASE("a model with batch norms gets micro-batches of two samples, unless one is fixed") {
  struct normed : model<input<float, 16>, linear<64>, batch_norm<>, gelu, linear<4>, softmax_cross_entropy> {};
  for (const int batch : {4, 8})
    CHECK(choose_best(network_of<normed>, {.devices = 4, .batch = batch}).winner.micro_batch_size >= 2);
  CHECK(choose_best(network_of<normed>, {.devices = 4, .batch = 4, .replicas = 4}).winner.micro_batch_size == 1);
}

TEST_CASE("what the space fixes is chosen") {
  const best_choice chosen = choose_best(
      chosen_network, {.devices = 4, .batch = 32, .replicas = 1, .workers = 2, .schedule = schedule_kind::zb_h1});
  CHECK(chosen.winner.workers == 2);
  CHECK(chosen.winner.replicas == 1);
  CHECK(chosen.winner.schedule == schedule_kind::zb_h1);
}
