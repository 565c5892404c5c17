#include <gpipe/tools/search/plan_pipeline.hpp>

#include <doctest/doctest.h>

#include <vector>

#include <gpipe/layer/activation/gelu.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/layer/normalization/layer_norm.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/model/model.hpp>
#include <gpipe/model/structure/items.hpp>
#include <gpipe/tools/search/searched_schedule.hpp>

using namespace gpipe;

namespace {

// Its stages differ: the last has a wide head.
struct net : model<input<float, 32>, repeat<6, residual<layer_norm, linear<64>, gelu, linear<32>>>, linear<200>,
                   softmax_cross_entropy> {};

std::int64_t step_of(const step_plan& p) {
  return gpipe::detail::makespan_of(network_of<net>, p.options, p.options.chosen_schedule(), p.costs(), p.cut(),
                                    p.links.data(), static_cast<int>(p.links.size()),
                                    [&](int s) { return p.requirements(s).kept_copies; });
}

}  // namespace

TEST_CASE("a schedule that is searched for a plan has a shorter step, and obeys the plan's limit") {
  for (const schedule_kind kind : {schedule_kind::one_f_one_b, schedule_kind::zb_h1, schedule_kind::zb_v}) {
    for (const bool limited : {false, true}) {
      plan_options o{
          .stages = 4, .micro_batches = 8, .micro_batch_size = 4, .recompute = recompute_mode::never, .schedule = kind};
      const step_plan known = make_plan(network_of<net>, o);
      if (limited)
        for (int s = 0; s < 4; ++s) o.memory_limit = std::max(s == 0 ? 0 : o.memory_limit, known.memory(s).total());
      const step_plan by =
          plan_with_cut(network_of<net>, o, std::vector(known.first.begin() + 1, known.first.end() - 1));
      const plan_pipeline stages(network_of<net>, by);
      const searched_schedule found(stages.view(), 0.02);
      const step_plan now = plan_with_cut(network_of<net>, found.chosen_in(o),
                                          std::vector(known.first.begin() + 1, known.first.end() - 1));
      CAPTURE(name_of(kind));
      CHECK(step_of(now) == found.makespan());
      if (kind != schedule_kind::one_f_one_b || !limited) CHECK(step_of(now) <= step_of(by));
      for (int s = 0; s < 4 && limited; ++s) CHECK(now.memory(s).total() <= o.memory_limit);
      CHECK(found.gap() < 0.1);
    }
  }
}

TEST_CASE("a plan whose workers have other stages is an error") {
  const step_plan by =
      make_plan(network_of<net>, {.stages = 4, .micro_batches = 4, .schedule = schedule_kind::interleaved});
  CHECK_THROWS_WITH_AS(plan_pipeline(network_of<net>, by),
                       doctest::Contains("plan with one that gives each worker one stage"), error);
}
