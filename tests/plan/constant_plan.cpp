#include <gpipe/plan/constant_plan.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>

#include <gpipe/core/descriptions/optimizer.hpp>
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/plan/plan.hpp>

#include "support/layers.hpp"

using namespace gpipe;
using namespace laws;

namespace {

struct net : model<input<float, 8>, halve, cross, join, stash<"x">, relu, linear<8>, pop<"x">, add, relu, linear<8>,
                   passing_loss> {};

auto block_of(const detail::memory_block& b) {
  return std::make_tuple(b.kind, b.layer_index, b.value, b.index, b.offset, b.bytes, b.copies, b.stride);
}

/// A training with the plan runs the same as one with a plan made at run time.
template <class Plan>
void equals_run_time(plan_options with) {
  static_assert(Plan::is_constant);
  const network& of = network_of<typename Plan::model>;
  const step_plan p = Plan::made_for(of, with);
  const step_plan q = plan_with_cut(of, with, {Plan::cut().first + 1, static_cast<std::size_t>(Plan::S - 1)});
  CHECK(std::string(p.schedule) == q.schedule);
  CHECK(p.trains == q.trains);
  CHECK(p.group_gradients == q.group_gradients);
  CHECK(p.workers_of_stages == q.workers_of_stages);
  CHECK(p.first == q.first);
  CHECK(p.links == q.links);
  CHECK(p.incoming == q.incoming);
  CHECK(p.outgoing == q.outgoing);
  REQUIRE(p.slots_of_links.size() == q.slots_of_links.size());
  for (std::size_t k = 0; k < p.links.size(); ++k) {
    CHECK(p.slots_of_links[k].stash == q.slots_of_links[k].stash);
    CHECK(p.slots_of_links[k].returned == q.slots_of_links[k].returned);
  }
  REQUIRE(p.stage_plans.size() == q.stage_plans.size());
  for (int s = 0; s < p.stages(); ++s) {
    CAPTURE(s);
    const auto i = static_cast<std::size_t>(s);
    const detail::stage_slots &a = p.slots_of_stages[i], &b = q.slots_of_stages[i];
    CHECK(std::tie(a.entering, a.forward, a.backward, a.held) == std::tie(b.entering, b.forward, b.backward, b.held));
    CHECK(p.requirements(s) == q.requirements(s));
    CHECK(p.memory(s).total() == q.memory(s).total());
    REQUIRE(p.blocks[i].size() == q.blocks[i].size());
    for (std::size_t k = 0; k < p.blocks[i].size(); ++k) CHECK(block_of(p.blocks[i][k]) == block_of(q.blocks[i][k]));
    CHECK(p.share(s) == doctest::Approx(q.share(s)));
  }
  CHECK(p.programs == q.programs);
  CHECK(p.forward_programs == q.forward_programs);
  CHECK(p.own_slots == q.own_slots);
  CHECK(p.leaving == q.leaving);
  CHECK(p.ties.size() == q.ties.size());
  CHECK(p.costs_of_layers == q.costs_of_layers);
}

template <class Schedule, class... Options>
using planned = plan<net, stages<4>, micro_batches<8>, micro_batch_size<2>, schedule<Schedule>, Options...>;

template <class Plan>
void for_optimizers() {
  equals_run_time<Plan>(Plan::options);
  plan_options other = Plan::options;
  other.optimizer_moments = 0;
  other.average_weights = true;
  equals_run_time<Plan>(other);
}

}  // namespace

TEST_CASE("a constant plan is the plan that is made at run time") {
  for_optimizers<planned<fill_drain>>();
  for_optimizers<planned<fill_drain, recompute<recompute_mode::never>, group_gradients<4>>>();
  for_optimizers<planned<one_f_one_b, recompute<recompute_mode::always>, workers<2>>>();
  for_optimizers<planned<interleaved>>();
  for_optimizers<planned<zb_h1, recompute<recompute_mode::as_needed>, replicas<2>>>();
  for_optimizers<planned<zb_v>>();
  for_optimizers<planned<forward_only, with_transfers>>();
  for_optimizers<planned<fill_drain, recompute_layers<"relu">>>();
  for_optimizers<planned<fill_drain, recompute_layers<"relu">, group_gradients<1>, memory_limit<1_MiB>>>();
}

namespace {

template <std::int64_t Bytes>
inline constexpr device_spec tight = this_cpu.with_limit(Bytes);
template <std::int64_t Bytes, recompute_mode Mode>
using on_tight = planned<one_f_one_b, recompute<Mode>, on_devices<this_cpu, tight<Bytes>, this_cpu, this_cpu>>;

}  // namespace

TEST_CASE("limits of devices bind a plan of the compiler as one that is made at run time") {
  using free = on_tight<1_MiB, recompute_mode::never>;
  using bound = on_tight<free::memory(1).total() - 1, recompute_mode::never>;
  static_assert(bound::memory(1).total() < free::memory(1).total());
  for_optimizers<bound>();
  const network& of = network_of<net>;
  const step_plan made = make_plan(of, bound::options);
  CHECK(made.memory(1).total() <= bound::options.limit_of(1));
  using recomputed = on_tight<free::memory(1).total() - 1, recompute_mode::as_needed>;
  const step_plan again = make_plan(of, recomputed::options);
  for (int s = 0; s < 4; ++s)
    CHECK(again.requirements(s).kept_copies ==
          plan_with_cut(of, recomputed::options, {recomputed::cut().first + 1, 3}).requirements(s).kept_copies);
  CHECK_FALSE(recomputed::is_constant);
}

namespace {

inline constexpr device_spec left = this_cpu.in_process(0), right = this_cpu.in_process(1);

}  // namespace

TEST_CASE("a plan of the compiler has the processes that its devices name") {
  using placed = planned<one_f_one_b, on_devices<left, right, right, right>>;
  static_assert(placed::is_constant);
  for_optimizers<placed>();
  CHECK(placed::made_for(network_of<net>, placed::options).processes_of_workers == std::vector{0, 1, 1, 1});
  CHECK(make_plan(network_of<net>, placed::options).processes_of_workers == std::vector{0, 1, 1, 1});
  CHECK(make_plan(network_of<net>, planned<one_f_one_b>::options).processes_of_workers.empty());
}

TEST_CASE("what depends on the training's optimizer is no constant") {
  CHECK_FALSE(planned<one_f_one_b, recompute<recompute_mode::as_needed>, memory_limit<1_MiB>>::is_constant);
  CHECK_FALSE(planned<fill_drain, recompute<recompute_mode::never>, memory_limit<1_MiB>>::is_constant);
  CHECK(planned<fill_drain, recompute<recompute_mode::never>, group_gradients<2>, memory_limit<1_MiB>>::is_constant);
  CHECK_FALSE(plan<net, stages<4>, micro_batches<256>, micro_batch_size<1>>::is_constant);  // too large
}

TEST_CASE("a plan of another model is refused") {
  struct other : model<input<float, 8>, linear<8>, passing_loss> {};
  CHECK_THROWS_WITH_AS(planned<fill_drain>::made_for(network_of<other>, planned<fill_drain>::options),
                       doctest::Contains("layers"), error);
}
