// optimize: yes

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include <gpipe/plan/make_plan.hpp>

#include "support/models.hpp"
#include "support/same_bits.hpp"
#include "support/training_bits.hpp"

using namespace laws;

namespace {

constexpr schedule_kind schedules[] = {schedule_kind::fill_drain, schedule_kind::one_f_one_b, schedule_kind::zb_h1};
enum class packing { by_default, kept, on_the_way };
constexpr packing packings[] = {packing::by_default, packing::on_the_way};

plan_options with(packing choice, plan_options o) {
  o.share_packed_weights = choice == packing::on_the_way;
  o.keep_packed_weights = choice == packing::kept;
  return o;
}

void changes_no_bit(const test_model& model, const layer_patterns& again, const layer_patterns& without_weights) {
  same_bits law{.model = model, .sizes = {13, 4}};
  law.holds({with(packing::kept, {.recompute = recompute_mode::always})});
  for (const packing choice : packings) {
    for (const int S : {1, 2, model.layers()})
      for (const schedule_kind schedule : schedules)
        for (const recompute_mode mode : kept_modes)
          law.holds({with(choice, {.stages = S, .recompute = mode, .schedule = schedule})});
    for (const int group : {1, 2})
      law.holds({with(choice, {.stages = 2, .recompute = recompute_mode::never, .group_gradients = group}), {}, false});
    for (const layer_patterns& list : {again, without_weights})
      for (const int S : {1, 2}) law.holds({with(choice, {.stages = S, .recompute_layers = list})});
  }
}

}  // namespace

TEST_CASE("packed weights that are kept, in turn or on the way: the same bits") {
  changes_no_bit(models::image, {"conv2d", "linear"}, {"batch_norm", "instance_norm"});
  changes_no_bit(models::image_double, {"linear"}, {"batch_norm", "instance_norm"});
  changes_no_bit(models::tied_bf16, {"linear"}, {"gelu", "batch_norm"});
  changes_no_bit(models::headed, {"feed_forward"}, {"rms_norm"});
  changes_no_bit(models::sliced, {"feed_forward"}, {"rms_norm"});
  changes_no_bit(models::attended, {"attention", "linear"}, {"layer_norm"});
}

TEST_CASE("a stage has memory for both copies, for the larger one, or for the largest layer's alone") {
  const network& n = models::image.net;
  const auto packed = [&](const plan_options& o) {
    std::int64_t bytes = 0;
    for (const stage_plan& s : make_plan(n, o).stage_plans) bytes += s.memory.of(memory_kind::derived);
    return bytes;
  };
  std::int64_t both = 0, one = 0, largest = 0;
  for (int l = 0; l < n.layer_count; ++l) {
    const auto& r = n.type_of(l);
    const auto bytes = static_cast<std::int64_t>(r.derived_bytes_in_turn(true, l > 0));
    both += static_cast<std::int64_t>(r.derived_bytes());
    one += bytes;
    largest = (std::max)(largest, bytes);
  }
  CHECK(largest < one);
  CHECK(one < both);
  const auto one_f_one_b = schedule_kind::one_f_one_b;
  CHECK(packed({.keep_packed_weights = true}) == both);
  CHECK(packed({.micro_batches = 8}) == one);
  CHECK(packed({.micro_batches = 8, .recompute = recompute_mode::always}) == both);
  CHECK(packed({.micro_batches = 1, .recompute = recompute_mode::always}) == one);
  CHECK(packed({.micro_batches = 8, .recompute_layers = {"batch_norm"}}) == one);
  CHECK(packed({.micro_batches = 8, .recompute_layers = {"batch_norm", "conv2d"}}) == both);
  CHECK(packed({.micro_batches = 8, .schedule = one_f_one_b}) == both);
  CHECK(packed({.micro_batches = 1, .schedule = one_f_one_b}) == one);
  CHECK(packed({.share_packed_weights = true}) == largest);
  CHECK(packed({.stages = n.layer_count, .share_packed_weights = true}) == one);
  // 1F1B of more stages than micro-batches: the first stages run all forwards before their first backward.
  const step_plan many = make_plan(n, {.stages = 5, .micro_batches = 2, .schedule = one_f_one_b});
  for (int s = 0; s < 5; ++s)
    CHECK(many.requirements(s).packed == (s < 4 ? packed_weights::in_turn : packed_weights::kept));
  CHECK_THROWS_WITH_AS(packed({.share_packed_weights = true, .keep_packed_weights = true}),
                       doctest::Contains("share_packed_weights and keep_packed_weights are both true"), error);
}

TEST_CASE("a layer with many rows packs on the way, but not on a GPU") {
  const plan_options o{.micro_batches = 5, .micro_batch_size = 4};
  const auto packed_of = [](const plan_options& with) {
    return make_plan(models::long_rows.net, with).memory(0).of(memory_kind::derived);
  };
  const auto bytes_of = [](int k, int n) { return static_cast<std::int64_t>(sizeof(float) * packed_size(k, n)); };
  // The first layer packs nothing for backward, because no gradient flows to the input.
  const std::int64_t others = bytes_of(12, 2048) + (std::max)(bytes_of(16384, 7), bytes_of(7, 16384)),
                     its = (std::max)(bytes_of(4, 32), bytes_of(32, 4));
  CHECK(packed_of(o) == others + its);
  const memory_requirements needs = make_plan(models::long_rows.net, o).requirements(0);
  const auto choice = [&](int l, const memory_requirements& with) {
    return gpipe::detail::packing_of(models::long_rows.net.type_of(l), with);
  };
  CHECK(choice(0, needs) == packed_weights::in_turn);
  CHECK(choice(2, needs) == packed_weights::on_the_way);
  auto fewer = needs;
  fewer.micro_batch_size = 1;  // 512 rows
  CHECK(choice(2, fewer) == packed_weights::in_turn);
  plan_options gpu = o;
  gpu.device = h100;
  CHECK(choice(2, make_plan(models::long_rows.net, gpu).requirements(0)) == packed_weights::in_turn);
  same_bits law{.model = models::long_rows, .sizes = {13, 4}};
  law.holds({{.keep_packed_weights = true}});
  for (const schedule_kind schedule : schedules) law.holds({{.stages = 2, .schedule = schedule}});
}

TEST_CASE("parameters that are set or loaded are packed before the next kernel") {
  const test_model& data = models::tied;
  const plan_options o{.stages = 2, .micro_batches = 5, .micro_batch_size = 4};
  std::vector<std::uint64_t> hashes;
  for (const packing choice : {packing::kept, packing::by_default, packing::on_the_way}) {
    const auto training = data.trainer(with(choice, o));
    training->evaluate(data.take(0, 9));
    auto weight = training->array(0, "weight").values<float>();
    for (float& x : weight) x = -x;
    training->array(0, "weight").set(weight);
    training->step(data.take(0, 13));
    hashes.push_back(training->parameter_hash());
  }
  CHECK(hashes[1] == hashes[0]);
  CHECK(hashes[2] == hashes[0]);
}

namespace {

/// Calls of all kinds, in an order in which each follows each. `fails`: set before a step that shall fail.
training_bits called(const test_model& data, plan_options options) {
  options.micro_batch_size = 3;
  bool fails = false;
  training_options how;
  how.arena_fill = std::byte{0xff};
  how.average_weights = options.average_weights ? 0.9 : 0;
  how.before = [&fails](const instruction& i) {
    if (fails && i.kind == action_kind::backward && i.stage == 0 && i.micro_batch == 1)
      throw std::runtime_error("between forward and backward");
  };
  const auto handle = data.trainer(options, how, rule::adam, 0.05);
  basic_trainer& training = *handle;
  training_bits found;
  const auto look = [&] {
    found.push_back(training.parameter_hash());
    found.push_back(std::bit_cast<std::uint64_t>(training.evaluate(data.take(2, 7)).loss));
  };
  const auto fail = [&] {
    fails = true;
    CHECK_THROWS_AS(training.step(data.take(0, 12)), error);
    fails = false;
  };
  const auto predict = [&] { append(found, training.predict(data.inputs(19))); };
  training.step(data.take(0, 12));
  look();
  training.accumulate(data.take(0, 12));
  training.accumulate(data.take(3, 12));
  training.step(data.take(6, 12));
  predict();
  training.step(data.take(1, 12));
  training.accumulate(data.take(0, 12));
  look();
  training.discard_accumulated();
  fail();
  look();
  fail();
  training.step(data.take(0, 12));
  fail();
  predict();
  training.step(data.take(0, 12));
  found.push_back(training.parameter_hash());
  return found;
}

}  // namespace

TEST_CASE("calls of all kinds one after the other: the same bits") {
  const auto same = [](const test_model& model, const plan_options& o) {
    const training_bits expected = called(model, with(packing::kept, o));
    for (const packing choice : packings) CHECK(called(model, with(choice, o)) == expected);
  };
  for (const schedule_kind schedule : {schedule_kind::fill_drain, schedule_kind::one_f_one_b})
    for (const int S : {1, 3})
      for (const test_model* model : {&models::tied, &models::image})
        same(*model, {.stages = S, .micro_batches = 4, .schedule = schedule});
  for (const shard what : {shard::none, shard::optimizer_state, shard::gradients})
    same(models::tied, {.stages = 2, .micro_batches = 2, .replicas = 2, .shard = what});
}
