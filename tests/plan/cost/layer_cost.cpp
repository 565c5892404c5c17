#include <gpipe/plan/cost/layer_cost.hpp>

#include <doctest/doctest.h>

#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;
using namespace gpipe::detail;

namespace {

constexpr parameter weight{"weight", {2}};
constexpr layer_type free_row = [] {
  layer_type r;
  r.cost = {.forward = 120, .backward_input = 240, .backward_parameters = 600, .bytes = 40};
  return r;
}();
constexpr layer_type trained_row = [] {
  layer_type r = free_row;
  r.parameters = &weight;
  r.parameter_count = 1;
  return r;
}();
constexpr device_spec plain{
    .name = "plain", .float32 = 60'000'000'000, .memory_bytes_per_second = 20'000'000'000, .launch_ns = 100};

// A kernel launch, plus per sample 2 ns for the operations and 2 ns for the bytes.
static_assert(cost_of(free_row, 1, false, plain).forward == 100'000 + 4'000);
static_assert(cost_of(free_row, 10, false, plain).forward == 100'000 + 40'000);
static_assert(cost_of(free_row, 10, false, plain).backward == 100'000 + 60'000);
// Parameters add a kernel; a recompute adds a forward.
static_assert(layer_cost_of(trained_row, 10, plain) == layer_cost{140'000, 160'000, 200'000});
static_assert(cost_of(trained_row, 10, false, plain).backward == 360'000);
static_assert(cost_of(trained_row, 10, true, plain).backward == 360'000 + 140'000);
static_assert(cost_of(trained_row, 10, true, plain).forward == 140'000);

// The parameters of a product are read in each kernel, and their gradients read and written: 0.4 and 0.8 ns of 8 bytes.
constexpr layer_type product_row = [] {
  layer_type r = trained_row;
  r.cost.kind = work_kind::product;
  return r;
}();
static_assert(layer_cost_of(product_row, 10, plain, true) == layer_cost{140'400, 160'400, 200'800});
static_assert(layer_cost_of(product_row, 10, plain) == layer_cost{140'000, 160'000, 200'000});
static_assert(layer_cost_of(trained_row, 10, plain, true) == layer_cost{140'000, 160'000, 200'000});

// A measured device has a rate for each kind of layers, and one for parameters: 4 ns of a product's 8 bytes.
constexpr device_spec timed = [] {
  device_spec on = plain;
  on.convolution = 30'000'000'000;
  on.other = 20'000'000'000;
  on.parameter_bytes_per_second = 2'000'000'000;
  return on;
}();
constexpr layer_type convolution_row = [] {
  layer_type r = trained_row;
  r.cost.kind = work_kind::convolution;
  return r;
}();
static_assert(layer_cost_of(product_row, 10, timed, true) == layer_cost{144'000, 164'000, 208'000});
static_assert(layer_cost_of(convolution_row, 10, timed) == layer_cost{160'000, 200'000, 300'000});
static_assert(layer_cost_of(trained_row, 10, timed, true) == layer_cost{180'000, 240'000, 400'000});

constexpr layer_type nothing{};
static_assert(cost_of(nothing, 1000, false, plain).forward == 100'000);

// Exact, rounded down, and without a product beyond 64 bits: 3 x 10^16 operations at 9 x 10^14 per second.
static_assert(detail::picoseconds(1, 3, "") == 333'333'333'333);
static_assert(detail::picoseconds(30'000'000'000'000'001, 900'000'000'000'000, "") == 33'333'333'333'333);
static_assert(detail::picoseconds(999'999'999'999, 1'000'000'000'000, "") == 999'999'999'999);

struct net : model<input<float, 4>, linear<8>, residual<relu, linear<8>>, linear<2>> {};
constexpr const network& n = network_of<net>;

}  // namespace

TEST_CASE("a cost grows with the samples") {
  CHECK(cost_of(trained_row, 64, true).forward > cost_of(trained_row, 8, true).forward);
}

TEST_CASE("all layers of one type have its cost") {
  layer_cost costs[5];
  layer_costs(n, 3, this_cpu, costs);
  for (int l = 0; l < 5; ++l) CHECK(costs[l] == layer_cost_of(n.type_of(l), 3, this_cpu));
}

TEST_CASE("costs that are negative or beyond 64 bits are rejected") {
  layer_type huge;
  huge.cost.forward = INT64_MAX / 2;
  CHECK_THROWS_AS(cost_of(huge, 3, false), error);
  CHECK_THROWS_AS(cost_of(huge, 1, true, device_spec{.name = "slow", .float32 = 1, .memory_bytes_per_second = 1}),
                  error);
  huge.cost.forward = -1;
  CHECK_THROWS_AS(cost_of(huge, 1, false), error);
}

TEST_CASE("the error of a device without a needed rate names the device") {
  layer_type doubles = free_row;
  doubles.computes = dtype::float64;
  CHECK_THROWS_WITH_AS(cost_of(doubles, 1, false, tpu_v3_core), doctest::Contains("TPU v3 core"), error);
}

TEST_CASE("layers in bf16 use the rate of matrix units") {
  layer_type fast = free_row;
  const auto takes = [&](std::int64_t operations) {
    fast.cost.forward = operations;
    return cost_of(fast, 1, false, h100).forward;
  };
  const std::int64_t slow = takes(989'000'000) - takes(0);
  fast.computes = dtype::bf16;
  CHECK(takes(989'000'000) - takes(0) == 1'000'000);
  CHECK(slow > 14'000'000);
  CHECK_THROWS_WITH_AS(cost_of(fast, 1, false, device_spec{.name = "old", .float32 = 1, .memory_bytes_per_second = 1}),
                       doctest::Contains("old"), error);
}

namespace {

constexpr device_spec linked{.name = "plain", .link_bytes_per_second = 10'000'000'000, .link_latency_ns = 7};
static_assert(transfer_time(0, linked) == 0 && transfer_time(1000, linked) == 7'000 + 100'000);

//   layer   0 linear  1 relu  2 linear  3 add  4 linear
//   value   1         2       3         4      5            (0 enters)
constexpr int three[] = {0, 1, 3, 5};
constexpr cut thirds{three, 3};

// Value 1 goes to stage 1, where relu and add read it, and value 4 to stage 2; 5 samples of 8 floats.
static_assert(traffic_of(n, thirds, {0, 1, true}, 5).forward_bytes == 160);
constexpr int separate[] = {0, 1, 3, 4, 5};
constexpr cut fourths{separate, 4};
// With add in its own stage, value 1 goes directly there, too; each of the two readers returns a gradient.
static_assert(traffic_of(n, fourths, {0, 1, true}, 5).backward_bytes == 160);
static_assert(traffic_of(n, fourths, {0, 2, true}, 5).forward_bytes == 160);
static_assert(traffic_of(n, fourths, {1, 2, true}, 5).forward_bytes == 160);
static_assert(traffic_of(n, fourths, {0, 3, true}, 5).forward_bytes == 0);
static_assert(link_cost_of(traffic_of(n, fourths, {1, 2, true}, 5), linked).forward == 7'000 + 16'000);

// Two readers in one stage before the last reader's return two gradients.
struct twice : model<input<float, 4>, linear<8>, stash<"x">, relu, pop<"x">, add, pop<"x">, add, pop<"x">, add> {};
constexpr int late[] = {0, 1, 4, 5};
static_assert(traffic_of(network_of<twice>, {late, 3}, {0, 1, true}, 1).forward_bytes == 32);
static_assert(traffic_of(network_of<twice>, {late, 3}, {0, 1, true}, 1).backward_bytes == 3 * 32);
static_assert(traffic_of(network_of<twice>, {late, 3}, {0, 2, true}, 1).backward_bytes == 32);

// A value that depends on no parameter has no gradient.
struct late_net : model<input<float, 4>, relu, linear<3>> {};
constexpr int two[] = {0, 1, 2};
static_assert(traffic_of(network_of<late_net>, {two, 2}, {0, 1, false}, 1).forward_bytes == 16);
static_assert(traffic_of(network_of<late_net>, {two, 2}, {0, 1, false}, 1).backward_bytes == 0);

}  // namespace

TEST_CASE("a link's time is that of its bytes in each direction") {
  const pass_cost time = link_cost_of({1000, 0}, linked);
  CHECK(time.forward == transfer_time(1000, linked));
  CHECK(time.backward == 0);
}
