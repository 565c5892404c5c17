#include <gpipe/plan/memory/derive_requirements.hpp>

#include <doctest/doctest.h>

#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/model/model.hpp>
#include <gpipe/plan/memory/requirements.hpp>

using namespace gpipe;
using namespace gpipe::detail;

namespace {

struct net : model<input<float, 64>, repeat<6, linear<64>, relu>> {};
constexpr const network& it = network_of<net>;

constexpr plan_options with(recompute_mode mode, std::int64_t limit = no_memory_limit) {
  return {.stages = 3, .micro_batches = 8, .micro_batch_size = 16, .recompute = mode, .memory_limit = limit};
}

}  // namespace

// The schedule gives the micro-batches in flight. Without recompute each keeps a working set; with recompute one does,
// or one for each delayed parameter part.
static_assert(requirements_of(fill_drain{}, with(recompute_mode::always), 0).in_flight == 8);
static_assert(requirements_of(fill_drain{}, with(recompute_mode::always), 0).kept_copies == 1);
static_assert(requirements_of(fill_drain{}, with(recompute_mode::never), 2).kept_copies == 8);
static_assert(requirements_of(one_f_one_b{}, with(recompute_mode::never), 0).kept_copies == 3);
static_assert(requirements_of(one_f_one_b{}, with(recompute_mode::except_last), 2).in_flight == 1);
static_assert(requirements_of(zb_h1{}, with(recompute_mode::always), 2).kept_copies > 1);
static_assert(requirements_of(zb_h1{}, with(recompute_mode::always), 2).split &&
              !requirements_of(fill_drain{}, with(recompute_mode::never), 2).split);
// Slots for the neighbours and, before there is a cut, for any stage that may skip to this one or from it.
static_assert(requirements_of(fill_drain{}, with(recompute_mode::always), 1).stash == slots_for{8, 8});
static_assert(requirements_of(fill_drain{}, with(recompute_mode::always), 0).returned == slots_for{2, 3});
static_assert(requirements_of(fill_drain{}, with(recompute_mode::always), 0).stash == slots_for{0, 0});
static_assert(requirements_of(one_f_one_b{}, with(recompute_mode::always), 2).stash == slots_for{2, 2});
static_assert(requirements_of(zb_h1{}, with(recompute_mode::always), 2).held > 1);
static_assert(requirements_of(one_f_one_b{}, with(recompute_mode::always), 2).held == 0);
// A schedule that does not train has neither gradients nor moments.
static_assert(requirements_of(fill_drain{}, with(recompute_mode::always), 0).trains);
static_assert(requirements_of(fill_drain{}, with(recompute_mode::always), 0).moments == 2);
static_assert(!requirements_of(forward_only{}, with(recompute_mode::always), 0).trains);
static_assert(requirements_of(forward_only{}, with(recompute_mode::always), 0).moments == 0);
static_assert(requirements_of(schedule_choice(schedule_kind::zb_h1), with(recompute_mode::always), 2) ==
              requirements_of(zb_h1{}, with(recompute_mode::always), 2));

TEST_CASE("a range of layers needs the same memory as in a cut") {
  const memory_requirements terms = requirements_of(fill_drain{}, with(recompute_mode::always), 0);
  const int first[] = {0, 5, 8, 12};
  for (int s = 0; s < 3; ++s)
    CHECK(memory_of_range(it, first[s], first[s + 1], terms).total() ==
          memory_of(stage_view(it, {first, 3}, s), terms).total());
  CHECK(memory_of_range(it, 0, 11, terms).total() > memory_of_range(it, 0, 9, terms).total());
}

TEST_CASE("a stage is counted again only if its requirements change") {
  const int first[] = {0, 4, 8, 12};
  const stage_view stage(it, {first, 3}, 1);
  memory_requirements needs = requirements_of(fill_drain{}, {.stages = 3, .micro_batches = 8}, stage);
  stage_plan plan;
  plan.requirements = needs;
  count_memory(stage, plan);
  CHECK(plan.counted);
  CHECK(plan.memory.total() == memory_of(stage, needs).total());
  plan.memory.naive = -1;  // a mark that a second count would overwrite
  count_memory(stage, plan);
  CHECK(plan.memory.naive == -1);
  ++needs.kept_copies;
  CHECK(plan.count(stage, needs) == memory_of(stage, needs).total());
  CHECK(plan.memory.naive > 0);
  CHECK(plan.requirements == needs);
}
