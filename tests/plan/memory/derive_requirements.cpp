#include <gpipe/plan/memory/derive_requirements.hpp>

#include <doctest/doctest.h>

#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/model/model.hpp>

using namespace gpipe;

namespace {

struct net : model<input<float, 64>, repeat<6, linear<64>, relu>> {};
constexpr const network& it = network_of<net>;

constexpr plan_options with(recompute_mode mode, std::int64_t limit = no_memory_limit) {
  return {.stages = 3, .micro_batches = 8, .micro_batch_size = 16, .recompute = mode, .memory_limit = limit};
}

}  // namespace

// In flight is the schedule's; without recompute each keeps its own set, with it one does, or one for each parameter
// part that is put off.
static_assert(requirements_of(fill_drain{}, with(recompute_mode::always), 0).in_flight == 8);
static_assert(requirements_of(fill_drain{}, with(recompute_mode::always), 0).kept_copies == 1);
static_assert(requirements_of(fill_drain{}, with(recompute_mode::never), 2).kept_copies == 8);
static_assert(requirements_of(one_f_one_b{}, with(recompute_mode::never), 0).kept_copies == 3);
static_assert(requirements_of(one_f_one_b{}, with(recompute_mode::except_last), 2).in_flight == 1);
static_assert(requirements_of(zb_h1{}, with(recompute_mode::always), 2).kept_copies > 1);
static_assert(requirements_of(zb_h1{}, with(recompute_mode::always), 2).split && !requirements_of(fill_drain{}, with(recompute_mode::never), 2).split);
// Neighbours' places and, where there are no cuts yet, those of any stage that may skip to this one or from it.
static_assert(requirements_of(fill_drain{}, with(recompute_mode::always), 1).stash == slots_for{8, 8});
static_assert(requirements_of(fill_drain{}, with(recompute_mode::always), 0).returned == slots_for{2, 3});
static_assert(requirements_of(fill_drain{}, with(recompute_mode::always), 0).stash == slots_for{0, 0});
static_assert(requirements_of(one_f_one_b{}, with(recompute_mode::always), 2).stash == slots_for{2, 2});
static_assert(requirements_of(zb_h1{}, with(recompute_mode::always), 2).held > 1);
static_assert(requirements_of(one_f_one_b{}, with(recompute_mode::always), 2).held == 0);
// What does not train has neither gradients nor moments.
static_assert(requirements_of(fill_drain{}, with(recompute_mode::always), 0).trains);
static_assert(requirements_of(fill_drain{}, with(recompute_mode::always), 0).moments == 2);
static_assert(!requirements_of(forward_only{}, with(recompute_mode::always), 0).trains);
static_assert(requirements_of(forward_only{}, with(recompute_mode::always), 0).moments == 0);
static_assert(requirements_of(schedule_choice(schedule_kind::zb_h1), with(recompute_mode::always), 2) ==
              requirements_of(zb_h1{}, with(recompute_mode::always), 2));

TEST_CASE("as needed keeps as many sets as there is room for, and no more than are in flight") {
  const int first[] = {0, 4, 8, 12};
  const stage_view stage(it, {first, 3}, 1);
  const auto needs = [&](int kept) {
    memory_requirements terms = requirements_of(fill_drain{}, with(recompute_mode::as_needed), 1);
    terms.kept_copies = kept;
    return memory_of(stage, terms).total();
  };
  for (int kept = 1; kept <= 8; ++kept) {
    REQUIRE((kept == 8 || needs(kept) < needs(kept + 1)));
    for (const std::int64_t spare : {std::int64_t{0}, std::int64_t{63}}) {
      const plan_options o = with(recompute_mode::as_needed, needs(kept) + spare);
      CHECK(with_working_sets(requirements_of(fill_drain{}, o, 1), o, stage).kept_copies == kept);
    }
  }
  const plan_options too_small = with(recompute_mode::as_needed, 1), any = with(recompute_mode::as_needed);
  CHECK(with_working_sets(requirements_of(fill_drain{}, too_small, 1), too_small, stage).kept_copies == 1);
  CHECK(with_working_sets(requirements_of(fill_drain{}, any, 1), any, stage).kept_copies == 8);
}

TEST_CASE("a stage alone needs what it needs among others") {
  const memory_requirements terms = requirements_of(fill_drain{}, with(recompute_mode::always), 0);
  const int first[] = {0, 5, 8, 12};
  for (int s = 0; s < 3; ++s)
    CHECK(memory_of_range(it, first[s], first[s + 1], terms).total() ==
          memory_of(stage_view(it, {first, 3}, s), terms).total());
  CHECK(memory_of_range(it, 0, 11, terms).total() > memory_of_range(it, 0, 9, terms).total());
}
