// optimize: yes

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "support/attended.hpp"
#include "support/imaged.hpp"

#include <gpipe/make_plan.hpp>

using namespace laws;

namespace {

/// Hashes of the parameters and gradients of two steps, of 13 and of 4 samples, and the loss of an evaluation.
template <class Net, class Data>
std::vector<std::uint64_t> trained(const Data& data, plan_options options, bool canary = true) {
  options.micro_batches = 5;
  options.micro_batch_size = 4;
  training_options how;
  how.arena_fill = std::byte{0xff};  // NaN: a read of unwritten memory shows
  how.canary = canary;
  trainer<Net, adam> training(options, adam{.learning_rate = 0.05}, how);
  std::vector<std::uint64_t> found;
  for (const int size : {13, 4}) {
    training.step(data.take(0, size));
    found.push_back(gradients_of(training));
    found.push_back(training.parameter_hash());
  }
  found.push_back(std::bit_cast<std::uint64_t>(training.evaluate(data.take(0, 9)).loss));
  return found;
}

constexpr recompute_mode modes[] = {recompute_mode::always, recompute_mode::except_last, recompute_mode::never};
enum class packing { by_default, kept, on_the_way };
constexpr packing packings[] = {packing::by_default, packing::on_the_way};

plan_options with(packing choice, plan_options o) {
  o.share_packed_weights = choice == packing::on_the_way;
  o.keep_packed_weights = choice == packing::kept;
  return o;
}

template <class Net, class Data>
void changes_no_bit(const Data& data, const layer_patterns& again, const layer_patterns& without_weights) {
  const auto expected = trained<Net>(data, with(packing::kept, {.recompute = recompute_mode::always}));
  for (const packing choice : packings) {
    CAPTURE(static_cast<int>(choice));
    const auto same = [&](const plan_options& o, bool canary = true) {
      CAPTURE(o.stages);
      CAPTURE(o.replicas);
      CAPTURE(name_of(o.schedule));
      CAPTURE(name_of(o.recompute));
      CHECK(trained<Net>(data, with(choice, o), canary) == expected);
    };
    for (const int S : {1, 2, layers_of<Net>})
      for (const schedule_kind schedule : {schedule_kind::fill_drain, schedule_kind::one_f_one_b, schedule_kind::zb_h1})
        for (const recompute_mode mode : modes) same({.stages = S, .recompute = mode, .schedule = schedule});
    for (const int group : {1, 2})
      same({.stages = 2, .recompute = recompute_mode::never, .group_gradients = group}, false);
    for (const layer_patterns& list : {again, without_weights})
      for (const int S : {1, 2}) same({.stages = S, .recompute_layers = list});
  }
}

}  // namespace

TEST_CASE("packed weights that are kept, in turn or on the way: the same bits") {
  changes_no_bit<image_net<float>>(samples<float>(19, 12, 1), {"conv2d", "linear"}, {"batch_norm", "instance_norm"});
  changes_no_bit<image_net<double>>(samples<double>(19, 12, 1), {"linear"}, {"batch_norm", "instance_norm"});
  changes_no_bit<tied_net<bf16>>(samples<float>(19, 12, 1), {"linear"}, {"gelu", "batch_norm"});
  changes_no_bit<headed_net<float>>(samples<float, std::int32_t>(19, 3, 3), {"feed_forward"}, {"rms_norm"});
  changes_no_bit<sliced_net<float>>(samples<float, std::int32_t>(19, 3, 3), {"feed_forward"}, {"rms_norm"});
  changes_no_bit<attended_net<float>>(token_samples<float>(19), {"attention", "linear"}, {"layer_norm"});
}

TEST_CASE("a stage has memory for both copies, for the larger one, or for the largest layer's alone") {
  using net = image_net<float>;
  const network& n = network_of<net>;
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

namespace {

/// A linear layer of 2,048 rows in a micro-batch of four samples, which packs on the way by default, between two with
/// few rows.
struct long_net : model<input<float, 12>, linear<2048>, reshape<512, 4>, linear<32>, gelu, reshape<16384>, linear<7>,
                        softmax_cross_entropy> {};

}  // namespace

TEST_CASE("a layer with many rows packs on the way, but not on a GPU") {
  const plan_options o{.micro_batches = 5, .micro_batch_size = 4};
  const auto packed_of = [](const plan_options& with) {
    return make_plan(network_of<long_net>, with).memory(0).of(memory_kind::derived);
  };
  const auto bytes_of = [](int k, int n) { return static_cast<std::int64_t>(sizeof(float) * packed_size(k, n)); };
  // The first layer packs nothing for backward, because no gradient flows to the input.
  const std::int64_t others = bytes_of(12, 2048) + (std::max)(bytes_of(16384, 7), bytes_of(7, 16384)),
                     its = (std::max)(bytes_of(4, 32), bytes_of(32, 4));
  CHECK(packed_of(o) == others + its);
  const memory_requirements needs = make_plan(network_of<long_net>, o).requirements(0);
  const auto choice = [&](int l, const memory_requirements& with) {
    return gpipe::detail::packing_of(network_of<long_net>.type_of(l), with);
  };
  CHECK(choice(0, needs) == packed_weights::in_turn);
  CHECK(choice(2, needs) == packed_weights::on_the_way);
  auto fewer = needs;
  fewer.micro_batch_size = 1;  // 512 rows
  CHECK(choice(2, fewer) == packed_weights::in_turn);
  plan_options gpu = o;
  gpu.device = h100;
  CHECK(choice(2, make_plan(network_of<long_net>, gpu).requirements(0)) == packed_weights::in_turn);
  const samples<float> data(19, 12, 1);
  const auto expected = trained<long_net>(data, {.keep_packed_weights = true});
  for (const schedule_kind schedule : {schedule_kind::fill_drain, schedule_kind::one_f_one_b, schedule_kind::zb_h1})
    CHECK(trained<long_net>(data, {.stages = 2, .schedule = schedule}) == expected);
}

TEST_CASE("parameters that are set or loaded are packed before the next kernel") {
  using net = tied_net<float>;
  const samples<float> data(19, 12, 1);
  const plan_options o{.stages = 2, .micro_batches = 5, .micro_batch_size = 4};
  trainer<net, adam> kept(with(packing::kept, o)), in_turn(o), on_the_way(with(packing::on_the_way, o));
  for (auto* t : {&kept, &in_turn, &on_the_way}) {
    t->evaluate(data.take(0, 9));
    auto weight = t->array(0, "weight").values<float>();
    for (float& x : weight) x = -x;
    t->array(0, "weight").set(weight);
    t->step(data.take(0, 13));
  }
  CHECK(kept.parameter_hash() == in_turn.parameter_hash());
  CHECK(kept.parameter_hash() == on_the_way.parameter_hash());
}

namespace {

/// Calls of all kinds, in an order in which each follows each. `fails`: set before a step that shall fail.
template <class Net, class Data>
std::vector<std::uint64_t> called(const Data& data, plan_options options) {
  options.micro_batch_size = 3;
  bool fails = false;
  training_options how;
  how.arena_fill = std::byte{0xff};
  how.average_weights = options.average_weights ? 0.9 : 0;
  how.before = [&fails](const instruction& i) {
    if (fails && i.kind == action_kind::backward && i.stage == 0 && i.micro_batch == 1)
      throw std::runtime_error("between forward and backward");
  };
  trainer<Net, adam> training(options, adam{.learning_rate = 0.05}, how);
  std::vector<std::uint64_t> found;
  const auto look = [&] {
    found.push_back(training.parameter_hash());
    found.push_back(std::bit_cast<std::uint64_t>(training.evaluate(data.take(2, 7)).loss));
  };
  const auto fail = [&] {
    fails = true;
    CHECK_THROWS_AS(training.step(data.take(0, 12)), error);
    fails = false;
  };
  const auto predict = [&] {
    const auto rows = training.predict(dataset{}.with("inputs", 12, data.inputs));
    gpipe::detail::hash sum;
    sum.add(reinterpret_cast<const std::byte*>(rows.all().data()), rows.all().size_bytes());
    found.push_back(sum.value());
  };
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
  const samples<float> data(19, 12, 1);
  const auto same = [&]<class Net>(plan_options o) {
    const auto expected = called<Net>(data, with(packing::kept, o));
    for (const packing choice : packings) CHECK(called<Net>(data, with(choice, o)) == expected);
  };
  for (const schedule_kind schedule : {schedule_kind::fill_drain, schedule_kind::one_f_one_b})
    for (const int S : {1, 3}) {
      const plan_options o{.stages = S, .micro_batches = 4, .schedule = schedule};
      same.operator()<tied_net<float>>(o);
      same.operator()<image_net<float>>(o);
    }
  for (const shard what : {shard::none, shard::optimizer_state, shard::gradients})
    same.operator()<tied_net<float>>({.stages = 2, .micro_batches = 2, .replicas = 2, .shard = what});
}
