#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/core/error.hpp>
#include <gpipe/plan/step_plan.hpp>
#include <gpipe/record/stage_report.hpp>
#include <gpipe/record/trace.hpp>
#include <gpipe/runtime/hooks/layer_hooks.hpp>
#include <gpipe/runtime/processes/rank_layout.hpp>
#include <gpipe/transport/contract/process_group.hpp>
#include <gpipe/transport/in_process/core_placement.hpp>

namespace gpipe::detail {

/// The records of a run: each stage's times, replica after replica, and each worker's events. The records of other
/// processes date from the last call of `share_stages` or `share_workers`.
class run_report {
 public:
  /// `workers` are in this process; `events` are kept for each worker; 0: none.
  GPIPE_COLD run_report(const network& net, const step_plan& plan, int workers, std::size_t events,
                        host_cores host = {})
      : workers_per_replica_(plan.workers()) {
    const int R = plan.replicas(), S = plan.stages(), K = plan.workers();
    for (int r = 0; r < R; ++r)
      for (int s = 0; s < S; ++s) add_stage(net, plan, r, s);
    const unsigned allowed = cores::allowed();
    for (stage_report& r : stages_) {  // `share_stages` replaces the entries of other processes
      r.process_workers = workers;
      if (allowed < cores::of_machine()) r.bound_to = static_cast<int>(allowed);
      r.host_processes = host.processes, r.host_workers = host.workers;
      if (host.cores < static_cast<int>(cores::of_machine())) r.host_bound_to = host.cores;
    }
    for (int w = 0; w < R * K && events > 0; ++w)
      workers_.emplace_back(events, detail::concat({R > 1 ? "replica " + std::to_string(w / K) + ", " : "",
                                                    K < S ? "worker " : "stage ", w % K}));
  }

  std::vector<stage_report>& stages() { return stages_; }
  const std::vector<recorder>& workers() const { return workers_; }
  /// The events of a replica's worker; null if none are kept.
  recorder* of_worker(int replica, int worker) {
    return workers_.empty() ? nullptr : &workers_[detail::index(replica * workers_per_replica_ + worker)];
  }

  GPIPE_COLD void share_stages(const broadcast& processes) {
    for (stage_report& r : stages_) processes.from_stage(r.replica, r.stage, &r, sizeof r);
  }
  GPIPE_COLD void share_workers(const broadcast& processes) {
    for (std::size_t i = 0; i < workers_.size(); ++i)
      workers_[i].share([&](void* bytes, std::size_t size) {
        processes.from_worker(static_cast<int>(i) / workers_per_replica_, static_cast<int>(i) % workers_per_replica_,
                              bytes, size);
      });
  }
  GPIPE_COLD void reset() {
    for (stage_report& r : stages_) r.busy_ns = {}, r.wait_ns = r.link_ns = r.step_ns = 0, r.steps = 0;
    reset_events();
  }
  void reset_events() {
    for (recorder& r : workers_) r.clear();
  }

 private:
  GPIPE_COLD void add_stage(const network& net, const step_plan& plan, int r, int s) {
    stage_report added;
    added.stage = s, added.first = plan.cut().first[s], added.last = plan.cut().first[s + 1];
    added.predicted_share = plan.share(s);
    added.bytes = static_cast<std::size_t>(plan.memory(s).total());
    for (int l = added.first; l < added.last; ++l) added.parameters += net.own_elements(l);
    added.replica = r, added.worker = r * plan.workers() + plan.worker_of(s);
    stages_.push_back(added);
  }

  std::vector<stage_report> stages_;  // [replica][stage]
  std::vector<recorder> workers_;     // [replica][worker]
  int workers_per_replica_;
};

/// Appends the median times of each layer of a stage for a full micro-batch; -1 for a layer that was not timed.
template <class Stage>
GPIPE_COLD void append_measured(const step_plan& plan, const Stage& stage, measured_profile& profile) {
  for (const auto& b : stage.layers()) {
    const auto median = [&](timed part) {
      return stage.timer() == nullptr ? -1
                                      : stage.timer()->median(b.layer_index - stage.layers().front().layer_index, part);
    };
    const auto known = [](std::int64_t ns) { return (std::max)(std::int64_t{0}, ns); };
    measured_layer line{b.layer_index, b.layer->name, median(timed::forward), known(median(timed::backward_input)),
                        known(median(timed::backward_parameters))};
    if (const std::int64_t both = median(timed::backward); both >= 0) {
      // The time of both parts is split in proportion to their costs.
      const layer_cost& costs = plan.costs().of(stage.stage())[b.layer_index];
      const double total = static_cast<double>(costs.backward_input) + static_cast<double>(costs.backward_parameters);
      const double part = total > 0 ? static_cast<double>(costs.backward_input) / total : 1;
      line.backward_input_ns = static_cast<std::int64_t>(static_cast<double>(both) * part);
      line.backward_parameters_ns = both - line.backward_input_ns;
    }
    profile.layers.push_back(line);
  }
}

/// Copies the times of a stage in the first replica to all processes. Called for each stage in order.
GPIPE_COLD inline void share_measured(const network& net, const step_plan& plan, const broadcast& processes, int stage,
                                      measured_profile& found) {
  for (int l = plan.first[index(stage)]; l < plan.first[index(stage) + 1]; ++l) {
    measured_layer& line = found.layers.size() > index(l) ? found.layers[index(l)] : found.layers.emplace_back();
    std::int64_t ns[] = {line.forward_ns, line.backward_input_ns, line.backward_parameters_ns};
    processes.from_stage(0, stage, ns, sizeof ns);
    line = {l, net.type_of(l).name, ns[0], ns[1], ns[2]};
  }
}

/// Throws `error` if a layer was not timed.
GPIPE_COLD inline void require_measured(const step_plan& plan, const measured_profile& found) {
  for (const measured_layer& line : found.layers)
    if (line.forward_ns < 0)
      throw_error({"no full micro-batch was timed"}, {"run steps of ", plan.max_batch(), " samples with layer_times"},
                  {.layer_index = line.position});
}

}  // namespace gpipe::detail
