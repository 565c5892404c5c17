// compiled: alone
// sanitizers: address

// The laws over two of AmoebaNet's cells: gradients, the same bits, memory, failures, no allocation. The law `lifetime`
// has them, too.

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "support/celled.hpp"
#include "support/disturbed_training.hpp"
#include "support/every_allocation.hpp"
#include "support/model_of.hpp"
#include "support/models.hpp"
#include "support/same_bits.hpp"
#include "support/sanitized.hpp"
#include "support/touched_memory.hpp"

using namespace laws;

namespace {

using net = celled_net<double>;
constexpr int L = layers_of<net>;
const samples<double> data(20, 12, 1);
constexpr test_model cells = model_of<net, numbers<double, 1>, adam>();
/// 8 samples are 3 + 3 + 2; 2 are 1 + 1 and an empty micro-batch.
const same_bits bits_of_cells{.model = cells, .sizes = {8, 2, 9}, .micro_batches = 3, .micro_batch_size = 3};

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
  same_bits law = bits_of_cells;
  for (int at = 1; at < L; at += sanitized ? 11 : 1) law.holds({{.stages = 2, .recompute = kept_modes[at % 3]}, {at}});
}

TEST_CASE("two cells have the same bits with every schedule, number of stages and recompute mode") {
  same_bits law = bits_of_cells;
  int turn = 0;
  for (const schedule_kind schedule : schedule_kinds)
    for (const int S : {1, 3, 4, 8, L})
      for (const recompute_mode mode : in_turn(kept_modes, S)) {
        const plan_options plan{.stages = S, .micro_batches = 3, .recompute = mode, .schedule = schedule};
        if (schedule == schedule_kind::forward_only || !plan.chosen_schedule().admits(S, 3)) continue;
        if (!left_out(turn++)) law.holds({plan});
      }
}

TEST_CASE("a stage of cells uses its predicted memory") {
  touches_what_is_predicted(measured(cells), {}, {1, 2, 7});
  touches_what_is_predicted(measured(cells), {.schedule = schedule_kind::one_f_one_b}, {3});
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
