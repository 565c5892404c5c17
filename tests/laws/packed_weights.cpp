// optimize: yes

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "support/attended.hpp"
#include "support/imaged.hpp"

#include <gpipe/plan/make_plan.hpp>

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

template <class Net, class Data>
void changes_no_bit(const Data& data) {
  const auto expected = trained<Net>(data, {.recompute = recompute_mode::always});
  for (const int S : {1, 2, layers_of<Net>})
    for (const schedule_kind schedule : {schedule_kind::fill_drain, schedule_kind::one_f_one_b, schedule_kind::zb_h1})
      for (const recompute_mode mode : modes) {
        CAPTURE(S);
        CAPTURE(name_of(schedule));
        CAPTURE(name_of(mode));
        CHECK(
            trained<Net>(data, {.stages = S, .recompute = mode, .schedule = schedule, .share_packed_weights = true}) ==
            expected);
      }
  for (const int group : {1, 2})
    CHECK(trained<Net>(
              data,
              {.stages = 2, .recompute = recompute_mode::never, .group_gradients = group, .share_packed_weights = true},
              false) == expected);
}

}  // namespace

TEST_CASE("layers that share the memory of packed weights: the same bits") {
  changes_no_bit<image_net<float>>(samples<float>(19, 12, 1));
  changes_no_bit<image_net<double>>(samples<double>(19, 12, 1));
  changes_no_bit<tied_net<bf16>>(samples<float>(19, 12, 1));
  changes_no_bit<headed_net<float>>(samples<float, std::int32_t>(19, 3, 3));
  changes_no_bit<sliced_net<float>>(samples<float, std::int32_t>(19, 3, 3));
  changes_no_bit<attended_net<float>>(token_samples<float>(19));
}

TEST_CASE("layers that share the memory of packed weights: a stage has memory for the largest layer's alone") {
  using net = image_net<float>;
  const network& n = network_of<net>;
  const auto packed = [&](bool shared, int S) {
    std::vector<std::int64_t> bytes;
    for (const stage_plan& s : make_plan(n, {.stages = S, .share_packed_weights = shared}).stage_plans)
      bytes.push_back(s.memory.of(memory_kind::derived));
    return bytes;
  };
  std::int64_t sum = 0, largest = 0;
  for (int l = 0; l < n.layer_count; ++l) {
    const auto bytes = static_cast<std::int64_t>(n.type_of(l).derived_bytes());
    sum += bytes;
    largest = (std::max)(largest, bytes);
  }
  CHECK(packed(false, 1) == std::vector{sum});
  CHECK(packed(true, 1) == std::vector{largest});
  CHECK(packed(true, n.layer_count) == packed(false, n.layer_count));
}

TEST_CASE("parameters that are set or loaded are packed before the next kernel") {
  using net = tied_net<float>;
  const samples<float> data(19, 12, 1);
  trainer<net, adam> kept({.stages = 2, .micro_batches = 5, .micro_batch_size = 4}),
      shared({.stages = 2, .micro_batches = 5, .micro_batch_size = 4, .share_packed_weights = true});
  for (auto* t : {&kept, &shared}) {
    auto weight = t->array(0, "weight").values<float>();
    for (float& x : weight) x = -x;
    t->array(0, "weight").set(weight);
    t->step(data.take(0, 13));
  }
  CHECK(kept.parameter_hash() == shared.parameter_hash());
}
