#include <gpipe/plan/cost/link_cost.hpp>

#include <doctest/doctest.h>

#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;
using namespace gpipe::detail;

namespace {

constexpr device_spec plain{.name = "plain", .link_bytes_per_second = 10'000'000'000, .link_latency_ns = 7};
static_assert(transfer_time(0, plain) == 0 && transfer_time(1000, plain) == 7'000 + 100'000);

//   layer   0 linear  1 relu  2 linear  3 add  4 linear
//   value   1         2       3         4      5            (0 enters)
struct net : model<input<float, 4>, linear<8>, residual<relu, linear<8>>, linear<2>> {};
constexpr const network& n = network_of<net>;
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
static_assert(link_cost_of(traffic_of(n, fourths, {1, 2, true}, 5), plain).forward == 7'000 + 16'000);

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
  const pass_cost time = link_cost_of({1000, 0}, plain);
  CHECK(time.forward == transfer_time(1000, plain));
  CHECK(time.backward == 0);
}
