// sanitizers: address

#include <gpipe/runtime/processes/plan_agreement.hpp>

#include <doctest/doctest.h>

#include <string>

#include <gpipe/layer.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/model/in_bf16.hpp>

using namespace gpipe;
using namespace gpipe::detail;

namespace {

template <int Width>
struct net : model<input<float, 12>, linear<Width>, gelu, linear<7>, softmax_cross_entropy> {};

template <class Model>
std::vector<agreed_value> traits(const plan_options& options, const std::vector<int>& cut = {1}) {
  return agreed_values_of(network_of<Model>, make_plan(network_of<Model>, options, cut));
}

constexpr plan_options two{.stages = 2, .micro_batches = 4, .micro_batch_size = 4};

/// The error of two processes with these values.
std::string mismatch(const std::vector<agreed_value>& one, const std::vector<agreed_value>& other) {
  const call_fingerprint own(collective_kind::make, one), theirs(collective_kind::make, other);
  return own == theirs ? "" : own.difference(theirs, 1, one).wrong();
}

}  // namespace

TEST_CASE("a mismatch of plans names the first value that differs, and both values unless they are hashes") {
  const auto own = traits<net<16>>(two);
  const std::string ranks = "ranks 0 and 1 do not agree on ";
  CHECK(mismatch(own, traits<net<16>>(two)) == "");
  CHECK(mismatch(own, traits<in_bf16<net<16>>>(
                          {.stages = 2, .micro_batches = 4, .micro_batch_size = 4, .precision = precision::bf16})) ==
        ranks + "precision: float32 and bf16");
  CHECK(mismatch(own, traits<net<17>>(two)) == ranks + "the model");
  CHECK(mismatch(own, traits<net<16>>(two, {2})) == ranks + "the cut");
  const auto differs = [&](auto member, auto value) {
    plan_options other = two;
    other.*member = value;
    return mismatch(own, traits<net<16>>(other));
  };
  CHECK(differs(&plan_options::schedule, schedule_kind::one_f_one_b) == ranks + "schedule: fill-drain and 1F1B");
  CHECK(differs(&plan_options::recompute, recompute_mode::never) == ranks + "recompute: as-needed and never");
  plan_options alone = two, grouped = two;
  alone.recompute = grouped.recompute = recompute_mode::never;
  grouped.group_gradients = 2;
  CHECK(mismatch(traits<net<16>>(alone), traits<net<16>>(grouped)) == ranks + "group_gradients: 1 and 2");
  CHECK(differs(&plan_options::micro_batches, 5) == ranks + "micro_batches: 4 and 5");
  CHECK(differs(&plan_options::micro_batch_size, 3) == ranks + "micro_batch_size: 4 and 3");
  CHECK(differs(&plan_options::replicas, 2) == ranks + "replicas: 1 and 2");
  CHECK(differs(&plan_options::workers, 1) == ranks + "workers: 2 and 1");
  CHECK(differs(&plan_options::optimizer_moments, 1) == ranks + "optimizer_moments: 2 and 1");
}
