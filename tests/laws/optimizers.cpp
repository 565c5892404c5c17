// optimize: yes

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include <gpipe/core/descriptions/adafactor.hpp>
#include <gpipe/core/descriptions/lion.hpp>
#include <gpipe/core/descriptions/rmsprop.hpp>

#include "support/models.hpp"
#include "support/nets.hpp"
#include "support/same_bits.hpp"
#include "support/sanitized.hpp"
#include "support/schedules.hpp"

// Every optimizer, with every kind of group: the same bits for every number of stages, schedule and recompute mode, at
// a fixed number of replicas.

using namespace laws;

namespace {

using net = tied_net<float>;

std::vector<std::vector<parameter_group>> group_settings(bool decays) {
  parameter_group slower{.parameters = {"0.*"}, .rate_factor = 0.25};
  if (decays) slower.weight_decay = 0.3;
  const parameter_group frozen{.parameters = {"*weight"}, .layers = {"batch_norm"}, .frozen = true};
  std::vector<std::vector<parameter_group>> all{{}, {slower, frozen}};
  if (decays) all.push_back({no_decay_for_biases_and_norms(), slower});
  return all;
}

void has_the_same_bits(rule optimizer) {
  int turn = 0;
  for (const auto& groups : group_settings(optimizer != rule::row_signs))
    for (const int R : {1, 2}) {
      training_options how{.seed = 5, .max_grad_norm = 1, .groups = groups};
      how.average_weights = R == 1 ? 0.8 : 0;
      same_bits law{.model = models::tied,
                    .sizes = {13, 5, 9},
                    .micro_batches = 4,
                    .replicas = R,
                    .optimizer = optimizer,
                    .rate = -1,
                    .how = how};
      for (const schedule_choice& choice : schedules::choices) {
        const int S = (++turn % 2 == 0) ? 4 : (turn % 3 == 0) ? law.model.layers() : 2;
        if (!choice.trains || !choice.admits(S, 4) || (sanitized && turn % 7 != 0)) continue;
        CAPTURE(groups.size());
        law.holds({scheduled(choice, {.stages = S, .recompute = schedules::modes[turn % 3]})});
      }
    }
}

/// All parameters after `steps` steps, [layer][parameter].
template <class Optimizer>
std::vector<std::vector<std::vector<float>>> weights_after(int steps, const Optimizer& optimizer,
                                                           const std::vector<parameter_group>& groups) {
  const samples<float> data(12, 12, 1);
  trainer<net, Optimizer> training({.stages = 2, .micro_batches = 3, .micro_batch_size = 4}, optimizer,
                                   {.groups = groups});
  for (int i = 0; i < steps; ++i) training.step(data.all());
  std::vector<std::vector<std::vector<float>>> all;
  for (int l = 0; l < training.net().layer_count; ++l) {
    all.emplace_back();
    const auto& layer = training.net().type_of(l);
    for (int p = 0; p < layer.parameter_count; ++p)
      all.back().push_back(training.parameter(l, layer.parameters[p].name));
  }
  return all;
}

}  // namespace

TEST_CASE("every optimizer, with and without groups: the same bits for every S, schedule and recompute mode") {
  for (int i = 0; i < rules; ++i) has_the_same_bits(static_cast<rule>(i));
}

TEST_CASE("a group of all parameters is the optimizer with these settings") {
  CHECK(weights_after(3, adamw{.learning_rate = 0.01, .weight_decay = 0.2}, {}) ==
        weights_after(3, adamw{.learning_rate = 0.02, .weight_decay = 0.5},
                      {{.parameters = {"*"}, .rate_factor = 0.5, .weight_decay = 0.2}}));
  CHECK(weights_after(3, adafactor{.learning_rate = 0.5}, {}) ==
        weights_after(3, adafactor{}, {{.parameters = {"*"}, .rate_factor = 0.5}}));
}

TEST_CASE("in one step each parameter moves by the settings of its own group") {
  const adamw its{.learning_rate = 0.01, .weight_decay = 0.5}, without{.learning_rate = 0.01, .weight_decay = 0};
  const auto mixed = weights_after(1, its, {no_decay_for_biases_and_norms()});
  const auto decayed = weights_after(1, its, {}), plain = weights_after(1, without, {});
  for (std::size_t l = 0; l < mixed.size(); ++l)
    for (std::size_t p = 0; p < mixed[l].size(); ++p) {
      CAPTURE(l);
      CAPTURE(p);
      const bool exempt = p == 1 || network_of<net>.type_of(static_cast<int>(l)).name.starts_with("batch_norm");
      CHECK(mixed[l][p] == (exempt ? plain : decayed)[l][p]);
    }
  CHECK(decayed[0][0] != plain[0][0]);
}

TEST_CASE("a frozen group does not change, and no norm counts it") {
  const samples<float> data(12, 12, 1);
  const plan_options options{.stages = 3, .micro_batches = 3, .micro_batch_size = 4};
  trainer<net, adam> all(options), some(options, {}, {.groups = {{.parameters = {"*.weight"}, .frozen = true}}}),
      none(options, {}, {.groups = {{.parameters = {"*"}, .frozen = true}}});
  const auto before = some.parameter(0, "weight"), bias = some.parameter(0, "bias");
  const auto tied = some.parameter(1, "weight");
  double squares = 0;
  for (int step = 0; step < 2; ++step) {
    const double whole = all.step(data.all()).norm, part = some.step(data.all()).norm;
    if (step == 0) {
      CHECK(part < whole);
      CHECK(part > 0);
      // The norm is that of the biases alone, each tied one at its owner.
      const network& n = all.net();
      for (int l = 0; l < n.layer_count; ++l)
        if (n.type_of(l).parameter_count == 2 && n.owns(l))
          for (const float g : all.array(l, "bias").gradient())
            squares += static_cast<double>(g) * static_cast<double>(g);
      double weight = 0;
      for (const float w : data.weights) weight += static_cast<double>(w);
      CHECK(part == doctest::Approx(std::sqrt(squares) / weight).epsilon(1e-5));
    }
    for (const float g : some.array(0, "weight").gradient()) CHECK(g == 0);
    CHECK(none.step(data.all()).norm == 0);
  }
  CHECK(some.parameter(0, "weight") == before);
  CHECK(some.parameter(1, "weight") == tied);
  CHECK(some.parameter(0, "bias") != bias);
  CHECK(none.parameter_hash() == trainer<net, adam>(options).parameter_hash());
  for (const auto& p : some.parameters())
    if (p.kind == array_kind::parameter) {
      CHECK(p.frozen == (p.name == "weight"));
      CHECK(p.group == (p.name == "weight" ? 0 : 1));
    }
  some.unfreeze(0, some.net().layer_count);  // it ends `freeze`, not a group
  some.step(data.all());
  CHECK(some.parameter(0, "weight") == before);
}

TEST_CASE("the average of the weights follows its formula, and is evaluated in their place") {
  const samples<float> data(12, 12, 1);
  for (const int S : {1, 4}) {
    const plan_options options{.stages = S, .micro_batches = 3, .micro_batch_size = 4};
    trainer<net, adam> training(options, {.learning_rate = 0.05}, {.average_weights = 0.75}),
        plain(options, {.learning_rate = 0.05});
    std::vector<double> expected;
    for (const float w : training.parameter(0, "weight")) expected.push_back(static_cast<double>(w));
    CHECK(training.array(0, "weight").average() == training.parameter(0, "weight"));
    for (int i = 0; i < 5; ++i) {
      training.step(data.all());
      plain.step(data.all());
      const auto now = training.parameter(0, "weight");
      for (std::size_t k = 0; k < now.size(); ++k)
        expected[k] = 0.75 * expected[k] + 0.25 * static_cast<double>(now[k]);
    }
    const auto found = training.array(0, "weight").average();
    for (std::size_t k = 0; k < found.size(); ++k)
      CHECK(static_cast<double>(found[k]) == doctest::Approx(expected[k]).epsilon(1e-5));
    CHECK(training.parameter_hash() == plain.parameter_hash());  // it changes no weight

    trainer<net, adam> averaged(options);  // with the averages as its weights
    for (int l = 0; l < training.net().layer_count; ++l) {
      const auto& layer = training.net().type_of(l);
      for (int p = 0; p < layer.parameter_count; ++p)
        averaged.array(l, layer.parameters[p].name).set(training.array(l, layer.parameters[p].name).average());
      for (int p = 0; p < layer.state_count; ++p)
        averaged.state_array(l, layer.state[p].name).set(training.state(l, layer.state[p].name));
    }
    const double loss = averaged.evaluate(data.all()).loss;
    CHECK(training.evaluate(data.all(), weights::averaged).loss == loss);
    CHECK(training.evaluate(data.all()).loss != loss);
    const tensor_rows rows = training.predict(data.all(), weights::averaged), others = averaged.predict(data.all());
    CHECK(rows.of(3)[0] == others.of(3)[0]);
    training.array(0, "bias").set_average(std::vector<float>(16, 2.0F));
    CHECK(training.array(0, "bias").average()[15] == 2);
    training.array(0, "bias").set(std::vector<float>(16, 3.0F));  // a parameter is written to its average, too
    CHECK(training.array(0, "bias").average()[15] == 3);
    training.array("0.bias").set_average(std::vector<float>(16, 4.0F));
    CHECK(training.array("0.bias").average()[15] == 4);
  }
}

TEST_CASE("an evaluation that fails leaves the weights as they were") {
  const samples<float> data(12, 12, 1);
  trainer<net, adam> training({.stages = 2, .micro_batches = 3, .micro_batch_size = 4}, {}, {.average_weights = 0.75});
  training.step(data.all());
  const std::uint64_t before = state_of(training);
  CHECK_THROWS_AS(training.evaluate(batch(3), weights::averaged), error);
  CHECK(state_of(training) == before);
  trainer<net, adam> without({.stages = 2, .micro_batches = 3, .micro_batch_size = 4});
  CHECK_THROWS_WITH_AS(
      without.evaluate(data.all(), weights::averaged),
      "average_weights is 0: there is no average of the weights; choose .average_weights = 0.999 in the "
      "options of the training",
      error);
  CHECK_THROWS_WITH_AS((trainer<net, adam>({}, {}, {.average_weights = 1})),
                       "average_weights is 1; choose a decay such as 0.999, or 0 for no average", error);
}

TEST_CASE("the arrays of an optimizer are listed, read and written") {
  const samples<float> data(12, 12, 1);
  trainer<net, adafactor_with_momentum> training({.stages = 3, .micro_batches = 3, .micro_batch_size = 4});
  training.step(data.all());
  const auto arrays = training.array(0, "weight").optimizer_arrays();
  REQUIRE(arrays.size() == 4);
  CHECK(arrays[0].name == "moment.0");
  CHECK(arrays[0].extents == tensor_extents{16, 12});
  CHECK(arrays[1].name == "row");
  CHECK(arrays[1].extents == tensor_extents{16});
  CHECK(arrays[2].name == "column");
  CHECK(arrays[2].extents == tensor_extents{12});
  CHECK(arrays[3].extents.size() == 0);
  // Rows and columns of one matrix have the same mean.
  double row = 0, column = 0;
  for (const float r : training.array(0, "weight").moment(1)) row += static_cast<double>(r) / 16;
  for (const float c : training.array(0, "weight").moment(2)) column += static_cast<double>(c) / 12;
  CHECK(row > 0);
  CHECK(row == doctest::Approx(column));
  CHECK(training.array("0.weight").optimizer_arrays().size() == 4);
  const auto kept = training.array("0.weight").moment(1);
  training.array("0.weight").set_moment(1, std::vector<float>(16, 1.0F));
  CHECK(training.array(0, "weight").moment(1)[15] == 1);
  training.array("0.weight").set_moment(1, kept);
  CHECK_THROWS_AS(training.array("0.weight").set_moment(1, std::vector<float>(12)), error);
  CHECK(training.array(0, "weight").moment(3).empty());
  CHECK(training.array(0, "bias").moment(3).size() == 16);
  CHECK_THROWS_WITH_AS(training.array(0, "weight").moment(4),
                       "the optimizer has no moment 4; it keeps 4 arrays, counted from 0", error);

  // All that a step reads is parameters and these arrays: copied, the next step has the same bits.
  trainer<net, adafactor_with_momentum> other({.stages = 1, .micro_batches = 3, .micro_batch_size = 4});
  other.step(data.take(0, 6));  // one step, of other data
  for (int l = 0; l < training.net().layer_count; ++l) {
    const auto& layer = training.net().type_of(l);
    for (int p = 0; p < layer.parameter_count; ++p) {
      const char* const name = layer.parameters[p].name;
      other.array(l, name).set(training.parameter(l, name));
      for (int k = 0; k < 4; ++k) other.array(l, name).set_moment(k, training.array(l, name).moment(k));
    }
    for (int p = 0; p < layer.state_count; ++p)
      other.state_array(l, layer.state[p].name).set(training.state(l, layer.state[p].name));
  }
  training.step(data.all());
  other.step(data.all());
  CHECK(training.parameter_hash() == other.parameter_hash());
}

TEST_CASE("moments begin with the first values of their optimizer") {
  trainer<net, rmsprop_tf> training({.stages = 3});
  for (const float v : training.array(0, "weight").moment(0)) CHECK(v == 1);
  for (const float m : training.array(0, "weight").moment(1)) CHECK(m == 0);
}
