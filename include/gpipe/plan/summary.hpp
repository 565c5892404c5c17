#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <gpipe/core/text/quantity.hpp>
#include <gpipe/model/model.hpp>
#include <gpipe/plan/cut/simulated_cut.hpp>
#include <gpipe/plan/cut/stage_costs.hpp>
#include <gpipe/plan/memory/requirements.hpp>
#include <gpipe/plan/options/plan_options.hpp>
#include <gpipe/plan/partition/partition.hpp>
#include <gpipe/plan/step_plan.hpp>

namespace gpipe {

namespace broken {

template <class Given, bool Holds>
struct describe_takes_a_plan {
  static_assert(
      Holds,
      "gpipe: describe<plan<net, stages<4>>>() has a plan of the compiler; a model alone is summary<net>(), and "
      "a training's plan describe(training.net(), training.plan())");
};

}  // namespace broken

namespace detail {

template <class Plan>
concept compiled_plan = requires {
  Plan::options;
  typename Plan::model;
};

// change: the summary of a plan or a model
/// The facts in the text of a plan, made at compile time or at run time.
struct plan_facts {
  const network& net;
  const plan_options& options;
  gpipe::cut cut;
  stage_costs costs;
  int group_gradients = 1;
  std::vector<stage_plan> stages{};  ///< with their bytes
};

/// In milliseconds, or from 10 s on in seconds.
GPIPE_COLD inline std::string time_text(std::int64_t picoseconds) {
  const double ms = static_cast<double>(picoseconds) * 1e-9;
  if (ms < 9999.5) return significant(ms, 4) + " ms";
  return (ms < 9999.5e3 ? significant(ms * 1e-3, 4) : fixed(ms * 1e-3, 0)) + " s";
}

/// The cut against the best one: "the cut is the optimum", or by how many percent it may be above. `from_optimum` is
/// null if the cut is compared by its step alone, and not by its bottleneck, too.
std::string quality_text(const network& net, const plan_options& o, const cut_quality& v, const distance* from_optimum);
// change: the summary of a plan or a model
std::string describe(const plan_facts& plan);

}  // namespace detail

/// The predicted time of a step in picoseconds: simulates the plan's schedule with its costs. Reductions and updates
/// take no time.
std::int64_t step_time(const network& net, const step_plan& plan);

/// A plan in words, before anything runs: the layers of each stage, its share of the predicted time, its parameters and
/// its memory; then the options, the bubble, the step time, and how far the step is from the shortest of any cut: as a
/// number where that is proven, else as "at most".
///
///     stage  layers  from         to      share  parameters    memory
///         0    0-24  linear<64>   add    25.1 %     133.2 k  2.02 MiB
std::string describe(const network& net, const step_plan& plan);

/// The same for a plan made at compile time: `std::cout << gpipe::describe<plan>();`, or `describe(plan{})`.
template <detail::compiled_plan Plan>
GPIPE_COLD std::string describe() {
  const network& net = network_of<typename Plan::model>;
  std::vector<layer_cost> costs(static_cast<std::size_t>(detail::cost_count(net, Plan::options)));
  detail::plan_facts facts{net, Plan::options, Plan::cut(), detail::fill_costs(net, Plan::options, costs.data()),
                           Plan::group_gradients};
  for (int s = 0; s < Plan::S; ++s)
    facts.stages.push_back({.requirements = Plan::requirements(s), .memory = Plan::memory(s)});
  return detail::describe(facts);
}
template <detail::compiled_plan Plan>
std::string describe(const Plan& /*plan*/) {
  return describe<Plan>();
}
// Another type: this is here for the error.
template <class Given>
requires(!detail::compiled_plan<Given>) std::string describe() {
  static_assert(sizeof(broken::describe_takes_a_plan<Given, detail::compiled_plan<Given>>) > 0);
  return {};
}

}  // namespace gpipe

#if !GPIPE_COMPILED
#include <gpipe/plan/summary-inl.hpp>
#endif
