// sanitizers: address

#include <gpipe/runtime/processes/training_agreement.hpp>

#include <doctest/doctest.h>

#include <chrono>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <gpipe/layer.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/model/in_bf16.hpp>

using namespace gpipe;
using namespace gpipe::detail;

namespace {

// The list's length is compared with this count, so an option without a line does not compile.
struct three_options {
  int number = 0;
  std::vector<int> list{};
  rate_schedule function = constant{};
};
static_assert(member_count<three_options>() == 3);

/// The error of two processes with these values, or with these options.
std::string difference(const std::vector<agreed_value>& one, const std::vector<agreed_value>& other) {
  const call_fingerprint own(collective_kind::make, one), theirs(collective_kind::make, other);
  return own == theirs ? "" : own.difference(theirs, 1, one).wrong();
}
std::string mismatch(const training_options& one, const training_options& other) {
  return difference(agreed_values_of(one), agreed_values_of(other));
}

}  // namespace

TEST_CASE("every option of a training has a name of its own in the list") {
  std::set<std::string_view> names;
  for (const training_option& option : training_option_list) {
    CAPTURE(option.name);
    CHECK(names.insert(option.name).second);
  }
}

TEST_CASE("a mismatch names the option, and both values unless they are hashes") {
  const std::string ranks = "ranks 0 and 1 do not agree on ";
  CHECK(mismatch({.seed = 5}, {.seed = 5}) == "");
  CHECK(mismatch({.seed = 5}, {.seed = 6}) == ranks + "seed: 5 and 6");
  CHECK(mismatch({}, {.average_weights = 0.5}) == ranks + "average_weights: 0 and 0.5");
  CHECK(mismatch({.deadline = std::chrono::nanoseconds(20)}, {.deadline = std::chrono::nanoseconds(30)}) ==
        ranks + "deadline: 20 and 30");
  CHECK(mismatch({}, {.trace_events = 100}) == ranks + "trace_events: 0 and 100");
  CHECK(mismatch({}, {.digest_calls = 2}) == ranks + "digest_calls: 0 and 2");
  CHECK(mismatch({}, {.layer_times = true}) == ranks + "layer_times: 0 and 1");
}

TEST_CASE("a mismatch of groups is found in each of their settings") {
  const std::string differs = "ranks 0 and 1 do not agree on groups";
  const parameter_group biases{.parameters = {"*bias"}};
  CHECK(mismatch({.groups = {biases}}, {.groups = {biases}}) == "");
  CHECK(mismatch({}, {.groups = {biases}}) == differs);
  CHECK(mismatch({.groups = {biases}}, {.groups = {biases, biases}}) == differs);
  const auto other = [&](auto member, auto value) {
    parameter_group changed = biases;
    changed.*member = value;
    return mismatch({.groups = {biases}}, {.groups = {changed}});
  };
  CHECK(other(&parameter_group::parameters, std::vector<std::string>{"*weight"}) == differs);
  CHECK(other(&parameter_group::layers, std::vector<std::string>{"linear"}) == differs);
  CHECK(other(&parameter_group::rate_factor, 0.1) == differs);
  CHECK(other(&parameter_group::weight_decay, 0.) == differs);
  CHECK(other(&parameter_group::frozen, true) == differs);
}

TEST_CASE("processes may differ in what each step or the plan agrees on, and in what changes no result") {
  CHECK(mismatch({}, {.max_grad_norm = 1}) == "");
  CHECK(mismatch({}, {.on_deadline = deadline_action::abort}) == "");
  CHECK(mismatch({}, {.arena_fill = std::byte{1}}) == "");
  CHECK(mismatch({.canary = false}, {.canary = true}) == "");
}

namespace {

template <int Width>
struct net : model<input<float, 12>, linear<Width>, gelu, linear<7>, softmax_cross_entropy> {};

template <class Model>
std::vector<agreed_value> traits(const plan_options& options, const std::vector<int>& cut = {1}) {
  return agreed_values_of(network_of<Model>, make_plan(network_of<Model>, options, cut));
}

constexpr plan_options two{.stages = 2, .micro_batches = 4, .micro_batch_size = 4};

}  // namespace

TEST_CASE("a mismatch of plans names the first value that differs, and both values unless they are hashes") {
  const auto own = traits<net<16>>(two);
  const std::string ranks = "ranks 0 and 1 do not agree on ";
  CHECK(difference(own, traits<net<16>>(two)) == "");
  CHECK(difference(own, traits<in_bf16<net<16>>>(
                            {.stages = 2, .micro_batches = 4, .micro_batch_size = 4, .precision = precision::bf16})) ==
        ranks + "precision: float32 and bf16");
  CHECK(difference(own, traits<net<17>>(two)) == ranks + "the model");
  CHECK(difference(own, traits<net<16>>(two, {2})) == ranks + "the cut");
  const auto differs = [&](auto member, auto value) {
    plan_options other = two;
    other.*member = value;
    return difference(own, traits<net<16>>(other));
  };
  CHECK(differs(&plan_options::schedule, schedule_kind::one_f_one_b) == ranks + "schedule: fill-drain and 1F1B");
  CHECK(differs(&plan_options::recompute, recompute_mode::never) == ranks + "recompute: as-needed and never");
  plan_options alone = two, grouped = two;
  alone.recompute = grouped.recompute = recompute_mode::never;
  grouped.group_gradients = 2;
  CHECK(difference(traits<net<16>>(alone), traits<net<16>>(grouped)) == ranks + "group_gradients: 1 and 2");
  CHECK(differs(&plan_options::micro_batches, 5) == ranks + "micro_batches: 4 and 5");
  CHECK(differs(&plan_options::micro_batch_size, 3) == ranks + "micro_batch_size: 4 and 3");
  CHECK(differs(&plan_options::replicas, 2) == ranks + "replicas: 1 and 2");
  CHECK(differs(&plan_options::workers, 1) == ranks + "workers: 2 and 1");
  CHECK(differs(&plan_options::optimizer_moments, 1) == ranks + "optimizer_moments: 2 and 1");
}
