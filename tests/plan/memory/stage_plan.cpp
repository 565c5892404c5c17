#include <gpipe/plan/memory/stage_plan.hpp>

#include <doctest/doctest.h>

#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/model/model.hpp>
#include <gpipe/plan/memory/derive_requirements.hpp>
#include <gpipe/plan/memory/stage_requirements.hpp>

using namespace gpipe;
using namespace gpipe::detail;

namespace {

struct net : model<input<float, 64>, repeat<6, linear<64>, relu>> {};
constexpr const network& it = network_of<net>;

}  // namespace

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
