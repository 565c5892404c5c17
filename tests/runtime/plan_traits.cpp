#include <gpipe/runtime/plan_traits.hpp>

#include <doctest/doctest.h>

#include <string>

#include <gpipe/layer.hpp>
#include <gpipe/model/in_bf16.hpp>

using namespace gpipe;

namespace {

template <int Width>
struct net : model<input<float, 12>, linear<Width>, gelu, linear<7>, softmax_cross_entropy> {};

template <class Model>
std::vector<trait> traits(const plan_options& options, const std::vector<int>& cut = {1}, std::uint64_t seed = 1) {
  return traits_of(network_of<Model>, make_plan(network_of<Model>, options, cut), seed);
}

constexpr plan_options two{.stages = 2, .micro_batches = 4, .micro_batch_size = 4};

/// The first on which they do not agree: what the processes of a job are told.
std::string first_apart(const std::vector<trait>& one, const std::vector<trait>& other) {
  REQUIRE(one.size() == other.size());
  for (std::size_t i = 0; i < one.size(); ++i)
    if (one[i].hash != other[i].hash) return std::string(one[i].name);
  return "";
}

}  // namespace

TEST_CASE("what processes disagree on is told by its name") {
  const auto own = traits<net<16>>(two);
  CHECK(first_apart(own, traits<net<16>>(two)) == "");
  CHECK(first_apart(own, traits<in_bf16<net<16>>>(two)) == "the precision");
  CHECK(first_apart(own, traits<net<17>>(two)) == "the model");
  CHECK(first_apart(own, traits<net<16>>(two, {2})) == "the cut");
  CHECK(first_apart(own, traits<net<16>>(two, {1}, 2)) == "replicas, micro-batches, recompute, optimizer or seed");
  plan_options other = two;
  other.schedule = schedule_kind::one_f_one_b;
  CHECK(first_apart(own, traits<net<16>>(other)) == "the schedule");
  other = two;
  other.recompute = recompute_mode::never;
  CHECK(first_apart(own, traits<net<16>>(other)) == "replicas, micro-batches, recompute, optimizer or seed");
}
