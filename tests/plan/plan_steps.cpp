#include <gpipe/plan/plan_steps.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <gpipe/layer/activation/gelu.hpp>
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/attention/embedding.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/layer/normalization/layer_norm.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/model/model.hpp>
#include <gpipe/plan/plan.hpp>
#include <gpipe/plan/summary.hpp>

#include "support/error_message.hpp"
#include "support/layers.hpp"

using namespace gpipe;
using namespace gpipe::detail;
using namespace laws;

namespace {

template <int Width>
struct wide : model<input<float, 8>, linear<Width>, gelu, linear<Width>, linear<10>, softmax_cross_entropy> {};
struct words : model<input<std::int32_t, 16>, embedding<1000, 64>> {};
struct of_sequences : model<input<float, 64, 128>, linear<128>> {};

constexpr plan_options with(int B, recompute_mode mode = recompute_mode::never) {
  return {.stages = 2, .micro_batches = 32, .micro_batch_size = B, .recompute = mode};
}
constexpr int group(const plan_options& o) { return group_size(network_of<wide<256>>, o); }

template <int B, class... Options>
using planned = plan<wide<256>, stages<2>, micro_batches<32>, micro_batch_size<B>, Options...>;

}  // namespace

// Groups make some 256 rows, and are at most eight; gradients in the nearest cache are not grouped.
static_assert(group(with(4)) == 8 && group(with(32)) == 8 && group(with(64)) == 4 && group(with(256)) == 1);
static_assert(group_size(network_of<wide<64>>, with(4)) == 1);
static_assert(group_size(network_of<of_sequences>,
                         {.micro_batches = 32, .micro_batch_size = 2, .recompute = recompute_mode::never}) == 2);
// A table that is looked up is not read whole.
static_assert(group_size(network_of<words>,
                         {.micro_batches = 32, .micro_batch_size = 4, .recompute = recompute_mode::never}) == 1);
// Never more than the micro-batches, and only if a stage holds them anyway.
static_assert(group({.micro_batches = 3, .micro_batch_size = 4, .recompute = recompute_mode::never}) == 3);
static_assert(group({.micro_batches = 3, .recompute = recompute_mode::never, .group_gradients = 8}) == 3);
static_assert(group(with(4, recompute_mode::except_last)) == 1);
static_assert(group({.micro_batches = 32,
                     .micro_batch_size = 4,
                     .recompute = recompute_mode::never,
                     .schedule = schedule_kind::one_f_one_b}) == 1);

TEST_CASE("the plan has memory for held gradients, the same at compile time and at run time") {
  using alone = planned<4, recompute<recompute_mode::never>, group_gradients<1>>;
  using eight = planned<4, recompute<recompute_mode::never>>;
  CHECK(alone::memory(0).of(memory_kind::held) == 0);
  CHECK(eight::memory(0).of(memory_kind::held) > 0);
  CHECK(eight::memory(0).of(memory_kind::returned) > alone::memory(0).of(memory_kind::returned));
  const step_plan made = make_plan(network_of<wide<256>>, with(4));
  CHECK(made.group_gradients == 8);
  CHECK(made.options.group_gradients == 0);  // so changed options can be planned again
  for (std::size_t s = 0; s < 2; ++s) {
    CHECK(made.stage_plans[s].requirements.held == 8);
    for (int kind = 0; kind < memory_kinds; ++kind)
      CHECK(made.stage_plans[s].memory.bytes[kind] == eight::memory(static_cast<int>(s)).bytes[kind]);
  }
}

namespace {

// Bytes of the largest stage with groups of this size, in the cut without a limit.
template <int G, class... More>
constexpr std::int64_t needed() {
  using made = planned<4, recompute<recompute_mode::never>, group_gradients<G>, More...>;
  return made::memory(0).total() > made::memory(1).total() ? made::memory(0).total() : made::memory(1).total();
}
template <std::int64_t Bytes>
using limited = planned<4, recompute<recompute_mode::never>, memory_limit<Bytes>>;

template <std::int64_t Bytes>
int within() {
  plan_options o = with(4);
  o.memory_limit = Bytes;
  const step_plan made = make_plan(network_of<wide<256>>, o);
  using same = limited<Bytes>;
  CHECK(made.group_gradients == same::group_gradients);
  for (int s = 0; s < 2; ++s) {
    CHECK(made.first[static_cast<std::size_t>(s)] == planned<4>::cut().first[s]);
    CHECK(made.memory(s).total() <= Bytes);
    CHECK(same::memory(s).total() == made.memory(s).total());
  }
  return made.group_gradients;
}

}  // namespace

TEST_CASE("groups are as large as the memory limit allows, and no cut is worse for it") {
  CHECK(within<1'000'000'000>() == 8);
  CHECK(within<needed<8>()>() == 8);
  CHECK(within<needed<8>() - 1>() == 4);
  CHECK(within<needed<4>() - 1>() == 2);
  CHECK(within<needed<2>() - 1>() == 1);
  CHECK(within<needed<1>()>() == 1);
}

namespace {

/// 64 stages of 128 micro-batches: a compiler counts held gradients within its default limits, for any memory limit.
struct deep : model<input<float, 128>, repeat<100, residual<layer_norm, linear<256>, gelu, linear<128>>>, linear<10>,
                    softmax_cross_entropy> {};
template <recompute_mode Mode, class... Limit>
using deep_plan = plan<deep, stages<64>, micro_batches<128>, micro_batch_size<4>, recompute<Mode>, Limit...>;
constexpr std::int64_t room = 2 * deep_plan<recompute_mode::never>::memory(0).total();
static_assert(deep_plan<recompute_mode::never, memory_limit<room>>::group_gradients == 8);
static_assert(deep_plan<recompute_mode::as_needed, memory_limit<room>>::group_gradients == 8);

}  // namespace

TEST_CASE("a stage of many that has memory for one micro-batch's gradients alone groups none") {
  plan_options o = deep_plan<recompute_mode::never>::options;
  o.group_gradients = 1;
  std::int64_t most = 0;
  for (const stage_plan& s : make_plan(network_of<deep>, o).stage_plans) most = std::max(most, s.memory.total());
  o.group_gradients = 0;
  o.memory_limit = most;
  CHECK(make_plan(network_of<deep>, o).group_gradients == 1);
}

TEST_CASE("a group is at most the micro-batches, also for the limit") {
  plan_options o{
      .stages = 2, .micro_batches = 3, .micro_batch_size = 4, .recompute = recompute_mode::never, .group_gradients = 3};
  const step_plan three = make_plan(network_of<wide<256>>, o);
  o.group_gradients = 8;
  o.memory_limit = std::max(three.memory(0).total(), three.memory(1).total());
  CHECK(make_plan(network_of<wide<256>>, o).group_gradients == 3);
}

TEST_CASE("a device's limit counts for groups, too") {
  plan_options o = with(4);
  device_spec each[] = {this_cpu, this_cpu};
  o.devices = each;
  o.device_count = 2;
  const step_plan free = make_plan(network_of<wide<256>>, o);
  CHECK(free.group_gradients == 8);
  each[1].memory_limit = free.memory(1).total();
  CHECK(make_plan(network_of<wide<256>>, o).group_gradients == 8);
  --each[1].memory_limit;
  CHECK(make_plan(network_of<wide<256>>, o).group_gradients < 8);
}

TEST_CASE("recompute as needed groups gradients only if nothing is recomputed for it") {
  constexpr auto needs = recompute_mode::as_needed;
  using kept = with_kept_packed_weights;  // else less memory is enough where nothing runs again
  CHECK(planned<4, recompute<needs>>::group_gradients == 8);
  CHECK(planned<4, recompute<needs>, group_gradients<1>>::group_gradients == 1);
  CHECK(planned<4, recompute<needs>, schedule<one_f_one_b>>::group_gradients == 1);
  CHECK(planned<4, recompute<needs>, kept, memory_limit<needed<8, kept>()>>::group_gradients == 8);
  CHECK(planned<4, recompute<needs>, kept, memory_limit<needed<8, kept>() - 1>>::group_gradients == 4);
  using tight = planned<4, recompute<needs>, kept, memory_limit<needed<1, kept>() - 1>>;
  CHECK(tight::group_gradients == 1);
  for (const std::int64_t limit : {no_memory_limit, needed<8, kept>(), needed<8, kept>() - 1, needed<1, kept>() - 1}) {
    plan_options o = with(4, needs);
    o.memory_limit = limit;
    o.keep_packed_weights = true;
    const step_plan made = make_plan(network_of<wide<256>>, o);
    CHECK(made.group_gradients == (limit >= needed<8, kept>() ? 8 : limit >= needed<1, kept>() ? 4 : 1));
    const int fewest = std::min(made.requirements(0).kept_copies, made.requirements(1).kept_copies);
    CHECK((fewest == 32 && made.recomputed_before.empty()) == (made.group_gradients > 1));
    for (const stage_plan& s : made.stage_plans) CHECK(s.memory.total() <= limit);
  }
}

TEST_CASE("a chosen group size counts against the limit, and the error names the remedy") {
  plan_options o = with(4);
  o.keep_packed_weights = true;
  o.memory_limit = needed<8>() - 1;
  o.group_gradients = 8;
  CHECK(
      error_message([&] { make_plan(network_of<wide<256>>, o, {2}); })
          .ends_with("; give it fewer layers, or leave the cut to the partition, or group_gradients 0, which may need "
                     "fewer"));
  o.memory_limit = 1000;
  for (const int G : {8, 0}) {
    o.group_gradients = G;
    const std::string refusal = error_message([&] { make_plan(network_of<wide<256>>, o); });
    CHECK(refusal != "");
    CHECK((refusal.find(", or group_gradients 0, which may need fewer") != std::string::npos) == (G == 8));
  }
}

namespace {

/// Layers of equal cost, whose backward has no parameter part in which a transfer could hide.
struct even : model<input<float, 1>, linear<4096>, repeat<8, relu>, passing_loss> {};

constexpr device_spec with_latency(std::int64_t ns) {
  device_spec device = this_cpu;
  device.link_latency_ns = ns;
  return device;
}
constexpr device_spec slow = with_latency(2000);

plan_options options(const device_spec& device) {
  return {.stages = 8,
          .micro_batches = 16,
          .micro_batch_size = 8,
          .recompute = recompute_mode::never,
          .schedule = schedule_kind::interleaved,
          .device = device,
          .cost_transfers = true};
}
warmup_kind chosen(const plan_options& o) { return make_plan(network_of<even>, o).options.warmup; }

std::int64_t largest_stage(plan_options o, warmup_kind kind, const std::vector<int>& cut = {}) {
  o.warmup = kind;
  std::int64_t largest = 0;
  for (const stage_plan& s : make_plan(network_of<even>, o, cut).stage_plans)
    largest = (std::max)(largest, s.memory.total());
  return largest;
}

}  // namespace

TEST_CASE("the longest warm-up is chosen if its step is shorter and fits the memory limit") {
  plan_options o = options(slow);
  CHECK(chosen(o) == warmup_kind::longest);
  const auto step = [&](warmup_kind kind) {
    plan_options it = o;
    it.warmup = kind;
    return step_time(network_of<even>, make_plan(network_of<even>, it));
  };
  CHECK(step(warmup_kind::automatic) == step(warmup_kind::longest));
  CHECK(step(warmup_kind::longest) < step(warmup_kind::shortest));

  const std::int64_t fewer = largest_stage(o, warmup_kind::shortest), more = largest_stage(o, warmup_kind::longest);
  REQUIRE(fewer < more);
  o.memory_limit = more;
  CHECK(chosen(o) == warmup_kind::longest);
  o.memory_limit = more - 1;
  CHECK(chosen(o) == warmup_kind::shortest);

  o.memory_limit = no_memory_limit;
  o.device.memory_limit = 2 * more;  // a device has two stages
  CHECK(chosen(o) == warmup_kind::longest);
  --o.device.memory_limit;
  CHECK(chosen(o) == warmup_kind::shortest);
}

TEST_CASE("the shortest warm-up is chosen if transfers have no cost, and what the user chose stays") {
  plan_options o = options(slow);
  for (const warmup_kind kind : {warmup_kind::shortest, warmup_kind::longest}) {
    o.warmup = kind;
    CHECK(chosen(o) == kind);
  }
  o.warmup = warmup_kind::automatic;
  o.cost_transfers = false;
  CHECK(make_plan(network_of<even>, o).options.chosen_schedule().in_flight(8, 16, 0) ==
        interleaved{2}.in_flight(8, 16, 0));
  CHECK(choose_warmup(network_of<even>, o) == warmup_kind::automatic);
}

TEST_CASE("a cut by hand counts, and the summary names the warm-up") {
  const int unequal[] = {0, 2, 3, 4, 5, 6, 7, 8, network_of<even>.layer_count};
  plan_options o = options(slow);
  CHECK(choose_warmup(network_of<even>, o, unequal) == warmup_kind::longest);
  o.memory_limit = largest_stage(o, warmup_kind::longest, {2, 3, 4, 5, 6, 7, 8});
  CHECK(choose_warmup(network_of<even>, o, unequal) == warmup_kind::longest);
  --o.memory_limit;
  CHECK(choose_warmup(network_of<even>, o, unequal) == warmup_kind::shortest);
  o.device.memory_limit = 2 * o.memory_limit;
  o.memory_limit = no_memory_limit;
  CHECK(choose_warmup(network_of<even>, o, unequal) == warmup_kind::shortest);
  CHECK(describe(network_of<even>, make_plan(network_of<even>, options(slow))).find("warmup longest") !=
        std::string::npos);
}

namespace {

template <class... More>
using compiled = plan<even, stages<8>, micro_batches<16>, micro_batch_size<8>, recompute<recompute_mode::never>,
                      schedule<interleaved>, with_transfers, More...>;
static_assert(compiled<on_device<slow>>::schedule.warmup == warmup_kind::longest);
static_assert(compiled<on_device<slow>>::options.warmup == warmup_kind::longest);
static_assert(compiled<on_device<slow>, warmup<warmup_kind::shortest>>::schedule.warmup == warmup_kind::shortest);

}  // namespace
