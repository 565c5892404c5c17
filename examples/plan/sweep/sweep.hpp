#pragma once

// Plans all combinations of a sweep.

#include <chrono>
#include <cstdint>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include <gpipe/plan/options/options.hpp>

#include "../network_planner.hpp"
#include "../planner.hpp"
#include "../subject.hpp"
#include "combination.hpp"
#include "settings.hpp"

namespace example {

using namespace gpipe;

/// Plans the combinations of a model written with gpipe, or of a table of costs.
class sweeper {
 public:
  sweeper(const sweep_settings& chosen, const network& net) : chosen_(chosen), net_(&net) {}
  sweeper(const sweep_settings& chosen, const subject& costs) : chosen_(chosen), costs_(&costs) {}

  /// In the order of stages, schedule, recompute, link, micro-batches, memory limit; the last changes fastest, from the
  /// highest limit to the lowest. `progress(done)` is called after each.
  template <class Progress>
  std::vector<swept> plan_all(const Progress& progress) const {
    std::vector<swept> all;
    const std::vector<int> of_schedule{0};
    for (const int stages : chosen_.stages.empty() ? of_schedule : chosen_.stages)
      for (const schedule_kind schedule : chosen_.orders)
        for (const recompute_mode recompute : chosen_.recompute)
          for (const std::int64_t link : chosen_.links) {
            const int S = stages > 0 ? stages : chosen_.devices * stages_per_worker(schedule);
            std::vector<std::vector<int>> cuts(chosen_.limits.size());  // of fewer micro-batches
            for (const int micro_batches : chosen_.micro_batches)
              plan_limits({S, micro_batches, schedule, recompute, INT64_MAX, link}, cuts, all, progress);
          }
    return all;
  }

 private:
  /// A plan that keeps within a limit by itself is the plan for this limit. A limit below a refused one is refused.
  template <class Progress>
  void plan_limits(combination of, std::vector<std::vector<int>>& cuts, std::vector<swept>& all,
                   const Progress& progress) const {
    swept last = plan_one(of, cuts[0]);
    const std::int64_t bound = last.bound;  // a limit makes no step shorter
    for (std::size_t i = 0; i < chosen_.limits.size(); ++i) {
      of.limit = last.of.limit = chosen_.limits[i];
      if (last.planned() && last.max_bytes > of.limit) last = plan_one(of, cuts[i]);
      if (last.planned()) cuts[i] = last.first;
      else last.bound = bound;
      all.push_back(last);
      progress(static_cast<std::int64_t>(all.size()));
    }
  }

  /// Also tries `cut`, that of fewer micro-batches, unless the step is the lower bound.
  swept plan_one(const combination& of, const std::vector<int>& cut) const {
    swept found;
    found.of = of;
    try {
      const int devices = schedule_choice(of.schedule).workers(of.stages);
      if (devices > chosen_.devices)
        throw error(concat({"the schedule needs ", several(devices, "device"), ", and there are ", chosen_.devices}),
                    "choose fewer stages or more devices");
      if (net_ != nullptr) found.micro_batch_size = size_of(of.micro_batches);
      planned best = net_ != nullptr ? plan_net(of) : plan_costs(of);
      if (net_ != nullptr && !cut.empty() && best.makespan > best.bound) try_cut(of, cut, best);
      found.devices = best.workers;
      found.step = best.makespan;
      found.bound = best.bound;
      found.max_bytes = best.max_bytes();
      found.idle = best.idle;
      for (const planned_stage& s : best.stages) found.first.push_back(s.first);
    } catch (const error& none) {
      found.refused = none.wrong() + "; " + none.remedy();
    }
    return found;
  }

  void try_cut(const combination& of, const std::vector<int>& cut, planned& best) const try {
    planned other = plan_network(*net_, options_of(of), {cut.begin() + 1, cut.end()});
    if (other.makespan < best.makespan && other.max_bytes() <= of.limit) best = std::move(other);
  } catch (const error&) {  // the cut breaks the memory limit
  }

  int size_of(int micro_batches) const {
    if (chosen_.batch % micro_batches != 0)
      throw error(concat({"micro_batches is ", micro_batches, ", and the batch of ", several(chosen_.batch, "sample"),
                          " is no multiple"}),
                  "choose a divisor");
    return chosen_.batch / micro_batches;
  }

  plan_options options_of(const combination& of) const {
    plan_options o{.stages = of.stages,
                   .micro_batches = of.micro_batches,
                   .micro_batch_size = size_of(of.micro_batches),
                   .recompute = of.recompute,
                   .schedule = of.schedule};
    o.device.memory_limit = of.limit;
    o.cost_transfers = of.link > 0;
    if (of.link > 0) o.device.link_bytes_per_second = of.link;
    return o;
  }

  planned plan_net(const combination& of) const {
    const plan_options o = options_of(of);
    require_valid(o, net_->layer_count);
    if (of.limit != INT64_MAX && !fits(o))  // the smallest limit that has a cut would take minutes to find
      throw error(concat({"no cut into ", several(of.stages, "stage"), " was found that fits ", bytes(of.limit),
                          " a device, of which its stages have equal parts"}),
                  "choose a higher limit or other recompute");
    return plan_network(*net_, o);
  }
  bool fits(const plan_options& o) const {
    std::vector<layer_cost> list(static_cast<std::size_t>(net_->layer_count));
    std::vector<int> first(static_cast<std::size_t>(o.stages) + 1);
    return search_cut(*net_, o, o.chosen_schedule(), gpipe::detail::fill_costs(*net_, o, list.data()), first.data())
        .fits;
  }

  planned plan_costs(const combination& of) const {
    choice c;
    c.stages = of.stages;
    c.micro_batches = of.micro_batches;
    c.schedule = of.schedule;
    c.recompute = of.recompute;
    if (of.limit != INT64_MAX) c.limit = of.limit / stages_per_worker(of.schedule);
    c.link = of.link;
    c.effort = 3e5;
    return plan_for(*costs_, c);
  }

  const sweep_settings& chosen_;
  const network* net_ = nullptr;
  const subject* costs_ = nullptr;
};

/// Says on stderr how far a sweep is, if it takes more than some seconds.
class progress_lines {
 public:
  explicit progress_lines(std::int64_t all) : all_(all) {}

  void operator()(std::int64_t done) {
    using namespace std::chrono;
    const auto now = steady_clock::now();
    if (done == all_ || now - last_ < seconds(5)) return;
    last_ = now;
    const double spent = duration<double>(now - begin_).count();
    std::cerr << "plan sweep: " << done << " of " << all_ << " combinations, "
              << fixed(spent / static_cast<double>(done) * static_cast<double>(all_ - done), 0) << " s left\n";
  }

 private:
  std::int64_t all_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now(), last_ = begin_;
};

}  // namespace example
