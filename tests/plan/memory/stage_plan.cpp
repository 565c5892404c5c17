#include <gpipe/plan/memory/stage_plan.hpp>

#include <doctest/doctest.h>

#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/model/model.hpp>
#include <gpipe/plan/memory/stage_requirements.hpp>

using namespace gpipe;
using namespace gpipe::detail;

namespace {

struct net : model<input<float, 64>, repeat<6, linear<64>, relu>> {};
constexpr const network& it = network_of<net>;

constexpr plan_options with(recompute_mode mode, std::int64_t limit = no_memory_limit) {
  return {.stages = 3, .micro_batches = 8, .micro_batch_size = 16, .recompute = mode, .memory_limit = limit};
}

}  // namespace

TEST_CASE("recompute as needed keeps the maximum of working sets that fits, at most one a micro-batch in flight") {
  const int first[] = {0, 4, 8, 12};
  const stage_view stage(it, {first, 3}, 1);
  const auto needs = [&](int kept) {
    memory_requirements requirements = requirements_of(fill_drain{}, with(recompute_mode::as_needed), stage);
    requirements.kept_copies = kept;
    return memory_of(stage, requirements).total();
  };
  const auto kept_with = [&](const plan_options& o) {
    stage_plan plan;
    set_requirements(o, fill_drain{}, stage, plan);
    CHECK(plan.first == 4);
    CHECK(plan.last == 8);
    return plan.requirements.kept_copies;
  };
  for (int kept = 1; kept <= 8; ++kept) {
    REQUIRE((kept == 8 || needs(kept) < needs(kept + 1)));
    for (const std::int64_t spare : {std::int64_t{0}, std::int64_t{63}}) {
      const plan_options o = with(recompute_mode::as_needed, needs(kept) + spare);
      CHECK(kept_with(o) == kept);
    }
  }
  const plan_options too_small = with(recompute_mode::as_needed, 1), any = with(recompute_mode::as_needed);
  CHECK(kept_with(too_small) == 1);
  CHECK(kept_with(any) == 8);
}

TEST_CASE("a stage is counted again only if its requirements change") {
  const int first[] = {0, 4, 8, 12};
  const stage_view stage(it, {first, 3}, 1);
  const plan_options o = with(recompute_mode::never);
  stage_plan plan;
  set_requirements(o, fill_drain{}, stage, plan);
  CHECK_FALSE(plan.counted);
  count_memory(stage, plan);
  CHECK(plan.memory.total() == memory_of(stage, plan.requirements).total());
  plan.memory.naive = -1;  // a mark that a second count would overwrite
  set_requirements(o, fill_drain{}, stage, plan);
  count_memory(stage, plan);
  CHECK(plan.memory.naive == -1);
  set_requirements(with(recompute_mode::always), fill_drain{}, stage, plan);
  count_memory(stage, plan);
  CHECK(plan.memory.naive > 0);
  CHECK(plan.memory.total() == memory_of(stage, plan.requirements).total());
}
