#pragma once

#include <span>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/model/network.hpp>
#include <gpipe/plan/options/options.hpp>
#include <gpipe/plan/options/plan_options.hpp>
#include <gpipe/plan/step_plan.hpp>

namespace gpipe {

/// Plans a network: the best cut (see `search_cut` and `shorten_step`), or `custom_cut`, the first layer of every stage
/// but the first.
step_plan make_plan(const network& net, const plan_options& options, const std::vector<int>& custom_cut = {});
/// The same for a cut that is known, empty for one stage. A program that only calls this compiles no search for a cut.
step_plan plan_with_cut(const network& net, const plan_options& options, std::span<const int> cut);

namespace detail {

/// Plans with a table that is searched for the stages: `schedule_kind::searched`. <gpipe/make_plan.hpp> defines it, so
/// that planning itself does not include the search.
struct searched_plan {
  static step_plan make(const network& net, plan_options options, const std::span<const int>* cut);
};

/// Plans a training of `ranks` processes, or of none: as `make_plan`, and as `plan_with_cut`. Processes share no
/// memory. If they are fewer than the schedule's workers, the schedule is folded onto them.
step_plan plan_training(const network& net, const plan_options& options, std::span<const int> cut, int ranks);
step_plan plan_training_with_cut(const network& net, const plan_options& options, std::span<const int> cut, int ranks);

template <class>
struct planner {
  static constexpr plan_maker make_plan = &plan_training, plan_with_cut = &plan_training_with_cut;
};

}  // namespace detail

}  // namespace gpipe

#if !GPIPE_COMPILED
#include <gpipe/plan/make_plan-inl.hpp>
#endif
