#include <gpipe/plan/cut/step_time.hpp>

#include <doctest/doctest.h>

#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/model/model.hpp>
#include <gpipe/plan/cut/step_time_bound.hpp>

using namespace gpipe;
using namespace gpipe::detail;

namespace {

struct net : model<input<float, 4>, linear<4>, linear<4>, linear<4>, linear<4>> {};
constexpr layer_cost alike[] = {{1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}};
constexpr int first[] = {0, 1, 2, 3, 4};
constexpr stage_link chain[] = {{0, 1, true}, {1, 2, true}, {2, 3, true}};

template <class Schedule>
constexpr std::int64_t step(Schedule schedule, recompute_mode mode, int kept = 1, bool transfers = false) {
  plan_options o{.stages = 4, .micro_batches = 8, .micro_batch_size = 1, .recompute = mode};
  o.cost_transfers = transfers;
  return makespan_of(network_of<net>, o, schedule, {alike, 4}, {first, 4}, chain, 3, [=](int) { return kept; });
}

}  // namespace

// Four stages, eight micro-batches, forward 1 and backward 2: the closed forms.
static_assert(step(fill_drain{}, recompute_mode::never) == 33);
static_assert(step(fill_drain{}, recompute_mode::always) == 41);       // recompute starts early
static_assert(step(fill_drain{}, recompute_mode::except_last) == 40);  // and one is spared
static_assert(step(one_f_one_b{}, recompute_mode::never) == 33);
static_assert(step(one_f_one_b{}, recompute_mode::always) == 41);
static_assert(step(one_f_one_b{}, recompute_mode::except_last) == 39);
static_assert(step(forward_only{}, recompute_mode::never) == 11);

// Layers run again: a recompute before the gradient arrives hides in the ramp, as that of whole micro-batches does. A
// parameter part that reads what ran again comes with the input part, also if backward is in two.
template <class Schedule>
constexpr std::int64_t step_again(Schedule schedule, int layer, int before) {
  const plan_options o{.stages = 2, .micro_batches = 4, .micro_batch_size = 1};
  int again[] = {-1, -1, -1, -1};
  if (layer >= 0) again[layer] = before;
  constexpr int halves[] = {0, 2, 4};
  return makespan_of(network_of<net>, o, schedule, {alike, 4}, {halves, 2, again}, chain, 1, [](int) { return 4; });
}
static_assert(step_again(fill_drain{}, -1, -1) == 30);
static_assert(step_again(fill_drain{}, 0, 1) == 33);  // the first one runs while the last stage is in backward
static_assert(step_again(fill_drain{}, 2, 3) == 34);  // the last stage has nothing to wait for
static_assert(step_again(zb_h1{}, 0, 1) > step_again(zb_h1{}, -1, -1));

// As needed, with more and more memory, goes from the one to the other.
static_assert(step(fill_drain{}, recompute_mode::as_needed, 1) == 40);
static_assert(step(fill_drain{}, recompute_mode::as_needed, 4) < 40 &&
              step(fill_drain{}, recompute_mode::as_needed, 4) > 33);
static_assert(step(fill_drain{}, recompute_mode::as_needed, 8) == 33);

// Devices of one process pass values in its memory: only the link between the processes takes time.
constexpr std::int64_t step_placed(bool placed) {
  constexpr device_spec slow{.name = "slow",
                             .float32 = 1,
                             .memory_bytes_per_second = 1,
                             .link_bytes_per_second = 1'000'000'000'000,
                             .link_latency_ns = 1};
  const device_spec a = placed ? slow.in_process(0) : slow, b = placed ? slow.in_process(1) : slow,
                    each[] = {a, a, a, b};
  plan_options o{.stages = 4, .micro_batches = 1, .micro_batch_size = 1, .recompute = recompute_mode::never};
  o.device = slow, o.devices = each, o.device_count = 4, o.cost_transfers = true;
  const layer_cost all[] = {alike[0], alike[0], alike[0], alike[0], alike[0], alike[0], alike[0], alike[0],
                            alike[0], alike[0], alike[0], alike[0], alike[0], alike[0], alike[0], alike[0]};
  return makespan_of(network_of<net>, o, fill_drain{}, {all, 4, true}, {first, 4}, chain, 3, [](int) { return 1; });
}
static_assert(step_placed(false) == 4 * 3 + 3 * 2 * 1016);  // 16 bytes and 1 ns, there and back
static_assert(step_placed(true) == 4 * 3 + 2 * 1016);

// Split where the schedule splits it: ZB-H1 fills the bubble with parameter parts.
static_assert(step(zb_h1{}, recompute_mode::never) == 8 * 3 + 3);

// On unequal devices a step takes as long as its slowest, and the bound knows of them.
constexpr layer_cost uneven[] = {{1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {2, 2, 2}, {2, 2, 2},
                                 {2, 2, 2}, {2, 2, 2}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1},
                                 {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}};
constexpr plan_options on_four{
    .stages = 4, .micro_batches = 8, .micro_batch_size = 1, .recompute = recompute_mode::never};
constexpr stage_costs unequal{uneven, 4, true};
static_assert(makespan_of(network_of<net>, on_four, fill_drain{}, unequal, {first, 4}, chain, 3,
                          [](int) { return 1; }) == 3 + 6 + 3 + 3 + 7 * 6);
static_assert(lower_bound_of(on_four, fill_drain{}, unequal) <= 57 &&
              lower_bound_of(on_four, fill_drain{}, unequal) > 33);
static_assert(lower_bound_of(on_four, fill_drain{}, {alike, 4}) == 33);

// A recompute is work on every device; as needed there may be none.
constexpr plan_options with(recompute_mode mode) {
  plan_options o = on_four;
  o.recompute = mode;
  return o;
}
constexpr std::int64_t again = lower_bound_of(with(recompute_mode::always), fill_drain{}, unequal);
static_assert(again > lower_bound_of(on_four, fill_drain{}, unequal));
static_assert(again <= makespan_of(network_of<net>, with(recompute_mode::always), fill_drain{}, unequal, {first, 4},
                                   chain, 3, [](int) { return 1; }));
static_assert(lower_bound_of(with(recompute_mode::as_needed), fill_drain{}, unequal) ==
              lower_bound_of(on_four, fill_drain{}, unequal));

// With split backward, gradients return while parameter parts still run.
constexpr layer_cost late[] = {{1, 5, 0}, {0, 0, 0}, {1, 1, 10}, {0, 0, 0},
                               {1, 5, 0}, {0, 0, 0}, {1, 1, 10}, {0, 0, 0}};
constexpr plan_options on_two{
    .stages = 2, .micro_batches = 1, .micro_batch_size = 1, .recompute = recompute_mode::never};
constexpr int halves[] = {0, 2, 4};
static_assert(makespan_of(network_of<net>, on_two, zb_h1{}, {late, 4, true}, {halves, 2}, chain, 1,
                          [](int) { return 1; }) == 13);
static_assert(lower_bound_of(on_two, zb_h1{}, {late, 4, true}) <= 13);

TEST_CASE("transfers make a step longer") {
  CHECK(step(fill_drain{}, recompute_mode::never, 1, true) > step(fill_drain{}, recompute_mode::never));
}
