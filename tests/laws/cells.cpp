// compiled: alone
// sanitizers: address

// The laws over two of AmoebaNet's cells: gradients, the same bits, memory, failures, no allocation. The law `lifetime`
// has them, too.

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "support/celled.hpp"
#include "support/disturbed_training.hpp"
#include "support/every_allocation.hpp"
#include "support/touched_memory.hpp"

using namespace laws;

namespace {

using net = celled_net<double>;
constexpr int L = layers_of<net>;
const samples<double> data(20, 12, 1);
constexpr recompute_mode modes[] = {recompute_mode::always, recompute_mode::except_last, recompute_mode::never};

/// The bits of three steps, and of an evaluation.
std::vector<std::uint64_t> bits_of(plan_options plan, std::vector<int> cut = {}, std::byte fill = std::byte{0xff}) {
  plan.micro_batches = 3;
  plan.micro_batch_size = 3;
  trainer<net, adam> training(plan, {.learning_rate = 0.05},
                              {.max_grad_norm = 0.1, .cut = std::move(cut), .arena_fill = fill, .canary = true});
  std::vector<std::uint64_t> found;
  for (const int size : {8, 2, 9}) {  // 3 + 3 + 2; 1 + 1 and an empty micro-batch
    const step_result step = training.step(data.take(0, size));
    for (const double x : {step.loss, step.norm}) found.push_back(std::bit_cast<std::uint64_t>(x));
    found.push_back(gradients_of(training));
    found.push_back(state_of(training));
  }
  found.push_back(std::bit_cast<std::uint64_t>(training.evaluate(data.take(0, 9)).loss));
  return found;
}

std::vector<int> fragile_layers() {
  std::vector<int> found;
  for (int l = 0; l < L; ++l)
    if (network_of<net>.type_of(l).name.find("fragile") != std::string_view::npos) found.push_back(l);
  return found;
}

}  // namespace

TEST_CASE("the gradient of each array of two cells is the loss's derivative, in double") {
  trainer<net, adam> training({.micro_batches = 1, .micro_batch_size = 8}, {});
  const auto loss = [&] { return training.step(data.take(0, 8), 0.0); };  // with a rate of 0
  for (auto& p : training.parameters()) {
    if (p.kind != array_kind::parameter) continue;
    const std::vector<double> at = p.values<double>();
    const step_result here = loss();
    const std::vector<double> gradient = p.gradient<double>();
    constexpr double h = 1e-6;
    std::vector<double> before = at, behind = at;
    double slope = 0;
    for (std::size_t i = 0; i < at.size(); ++i) {
      const double along = noise(9, i);
      slope += gradient[i] * along / here.weight;
      before[i] -= h * along;
      behind[i] += h * along;
    }
    p.set(behind);
    double difference = loss().loss;
    p.set(before);
    difference = (difference - loss().loss) / (2 * h);
    p.set(at);
    CAPTURE(p.path);
    CAPTURE(slope);
    CHECK(std::fabs(difference - slope) < 1e-6 * (1 + std::fabs(slope)));
  }
}

TEST_CASE("two cells have the same bits wherever one cut goes through them") {
  const auto expected = bits_of({}, {}, std::byte{0});
  for (int at = 1; at < L; at += sanitized ? 11 : 1) {
    CAPTURE(at);
    const bool same = bits_of({.stages = 2, .recompute = modes[at % 3]}, {at}) == expected;
    CHECK(same);
  }
}

TEST_CASE("two cells have the same bits with every schedule, number of stages and recompute mode") {
  const auto expected = bits_of({}, {}, std::byte{0});
  int turn = 0;
  for (const schedule_kind schedule : schedule_kinds)
    for (const int S : {1, 3, 4, 8, L})
      for (const recompute_mode mode : in_turn(modes, S)) {
        const plan_options plan{.stages = S, .recompute = mode, .schedule = schedule};
        plan_options three = plan;
        three.micro_batches = 3;
        if (schedule == schedule_kind::forward_only || !three.chosen_schedule().admits(S, 3)) continue;
        if (left_out(turn++)) continue;
        CAPTURE(name_of(schedule));
        CAPTURE(S);
        CAPTURE(static_cast<int>(mode));
        const bool same = bits_of(plan) == expected;
        CHECK(same);
      }
}

TEST_CASE("a stage of cells uses its predicted memory") {
  const measured_trainings cells = measured<trainer<net, adam>>(network_of<net>, data);
  touches_what_is_predicted(cells, {}, {1, 2, 7});
  touches_what_is_predicted(cells, {.schedule = schedule_kind::one_f_one_b}, {3});
}

TEST_CASE("a throw in the middle of a cell fails the step, names the layer and changes nothing; the next step works") {
  const std::vector<int> layers = fragile_layers();
  REQUIRE(layers.size() == 4);
  for (const std::vector<int>& cut : {std::vector<int>{}, {layers[1], layers[2] + 1, layers[3]}}) {
    disturbed::pair_of<net, double> both(cut);
    for (const int layer : layers)
      for (const action_kind where :
           {action_kind::forward, action_kind::backward_input, action_kind::backward_parameters}) {
        CAPTURE(layer);
        CAPTURE(name_of(where));
        trap_in_cell.where = where;
        trap_in_cell.first_sample = 3;
        trap_in_cell.layer_index = layer;
        const error found = both.failure();
        CHECK(found.wrong() == "broken");
        CHECK(found.where().layer_index == layer);
        CHECK(found.where().layer.find("fragile") != std::string::npos);
        CHECK(found.where().stage == both.disturbed.plan().cut().stage_of(layer));
        CHECK(found.where().micro_batch == 1);
        both.recovers();
      }
  }
}

#ifdef LAWS_COUNTED
TEST_CASE("a step through cells allocates nothing, the first step included") {
  for (const int stages : {1, 3}) {
    trainer<net, adam> training({.stages = stages, .micro_batches = 3, .micro_batch_size = 3}, {});
    const batch b = data.take(0, 8);
    for (int i = 0; i < 2; ++i) {
      const long before = allocations;
      training.step(b);
      CHECK(allocations == before);
    }
  }
}
#endif
