#include <gpipe/plan/cost/profile.hpp>

#include <doctest/doctest.h>

#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/plan/plan.hpp>

using namespace gpipe;
using namespace gpipe::detail;

namespace {

struct net : model<input<float, 8>, linear<8>, relu, linear<8>, relu> {};
constexpr const network& n = network_of<net>;

// The linear layers have the largest analytic cost; in this profile the first ReLU has.
struct measured {
  static constexpr int micro_batch_size = 4;
  static constexpr measured_layer layers[] = {
      {0, "linear<8>", 10, 11, 12}, {1, "relu", 900, 800}, {2, "linear", 13, 14, 15}, {3, "relu", 1, 2}};
};
static_assert(compare(profile_of<measured>, n, 4).error == profile_fault::none);

using by_profile = plan<net, stages<2>, micro_batches<4>, micro_batch_size<4>, profiled<measured>>;
using by_device = plan<net, stages<2>, micro_batches<4>, micro_batch_size<4>, on_device<p100>>;
static_assert(by_profile::stage_of(1) == 0 && by_profile::stage_of(2) == 1);
static_assert(by_device::options.device.float32 == p100.float32 && by_device::options.profile.layers == nullptr);

constexpr auto costs = [] {
  struct {
    layer_cost of[4];
  } found{};
  layer_costs(n, 4, this_cpu, profile_of<measured>, found.of);
  return found;
}();
static_assert(costs.of[0] == layer_cost{10'000, 11'000, 12'000} && costs.of[1] == layer_cost{900'000, 800'000, 0});

// A name is complete, or complete without its template arguments.
static_assert(detail::names_layer("linear<8>", "linear<8>") && detail::names_layer("linear", "linear<8>"));
static_assert(!detail::names_layer("line", "linear<8>") && !detail::names_layer("linear<80>", "linear<8>"));
static_assert(!detail::names_layer("", "linear<8>") && !detail::names_layer("relu", "linear<8>"));

/// The first mismatch of the profile after a change to its lines.
template <class Change>
profile_mismatch changed(Change change) {
  measured_layer lines[4];
  for (int l = 0; l < 4; ++l) lines[l] = measured::layers[l];
  change(lines);
  const profile p{lines, 4, 4};
  const profile_mismatch found = compare(p, n, 4);
  CHECK_THROWS_AS(require_profile_of(p, n, 4), error);
  return found;
}

}  // namespace

TEST_CASE("a profile of another model is rejected, with the line") {
  profile_mismatch found = changed([](measured_layer* lines) { lines[2].layer = "relu"; });
  CHECK(found.error == profile_fault::layer);
  CHECK(found.line == 2);
  found = changed([](measured_layer* lines) { lines[1].position = 2; });
  CHECK(found.error == profile_fault::position);
  CHECK(found.line == 1);
  found = changed([](measured_layer* lines) { lines[3].backward_parameters_ns = -1; });
  CHECK(found.error == profile_fault::negative);
  CHECK(found.line == 3);
  CHECK(compare({measured::layers, 3, 4}, n, 4).error == profile_fault::length);
  CHECK(compare(profile_of<measured>, n, 8).error == profile_fault::micro_batch_size);
}

TEST_CASE("the error names position, expected and given layer") {
  measured_layer lines[4];
  for (int l = 0; l < 4; ++l) lines[l] = measured::layers[l];
  lines[2].layer = "gelu";
  CHECK_THROWS_WITH_AS(require_profile_of({lines, 4, 4}, n, 4),
                       "layer 2: the profile has the layer gelu, but the model has linear<8> there; profile this model",
                       error);
}

TEST_CASE("a run-time plan uses the same costs") {
  plan_options o = by_profile::options;
  const step_plan p = make_plan(n, o);
  CHECK(p.costs().of(0)[1].forward == 900'000);
  CHECK(p.first[1] == by_profile::cut().first[1]);
  o.micro_batch_size = 5;
  CHECK_THROWS_AS(make_plan(n, o), error);
}

TEST_CASE("times beyond 64 bits are rejected") {
  measured_layer lines[4];
  for (int l = 0; l < 4; ++l) lines[l] = measured::layers[l];
  lines[0].forward_ns = INT64_MAX / 999;
  layer_cost into[4];
  CHECK_THROWS_AS(layer_costs(n, 4, this_cpu, profile{lines, 4, 4}, into), error);
}
