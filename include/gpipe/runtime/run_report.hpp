#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <gpipe/core/concat.hpp>
#include <gpipe/record/stage_report.hpp>
#include <gpipe/record/trace.hpp>
#include <gpipe/runtime/processes/remote_links.hpp>

namespace gpipe {

/// What is recorded of a run: each stage's times, of replica after replica, and each worker's events. Of what other
/// processes have it is what they told last.
class run_report {
 public:
  /// `events` are kept for each worker; 0: none.
  GPIPE_COLD run_report(const network& net, const runtime_plan& plan, std::size_t events) {
    const int R = plan.replicas(), S = plan.stages(), K = plan.workers();
    for (int r = 0; r < R; ++r)
      for (int s = 0; s < S; ++s) add_stage(net, plan, r, s);
    for (int rank = 0; rank < R * K && events > 0; ++rank)
      workers_.emplace_back(events, detail::concat({R > 1 ? "replica " + std::to_string(rank / K) + ", " : "",
                                                    K < S ? "worker " : "stage ", rank % K}));
  }

  std::vector<stage_report>& stages() { return stages_; }
  const std::vector<recorder>& workers() const { return workers_; }
  /// Of the worker with this rank among those of all replicas; null if no events are kept.
  recorder* of_worker(int rank) { return workers_.empty() ? nullptr : &workers_[static_cast<std::size_t>(rank)]; }

  void add_step(std::int64_t ns) {
    for (stage_report& r : stages_) r.step_ns += ns, ++r.steps;
  }
  GPIPE_COLD void share_stages(const abroad& others) {
    for (stage_report& r : stages_) others.share(r.replica, r.stage, &r, sizeof r);
  }
  GPIPE_COLD void share_workers(const abroad& others) {
    for (std::size_t w = 0; w < workers_.size(); ++w)
      workers_[w].share(
          [&](void* bytes, std::size_t size) { others.job().broadcast(bytes, size, static_cast<int>(w), 0); });
  }
  GPIPE_COLD void reset() {
    for (stage_report& r : stages_) r.busy_ns = {}, r.wait_ns = r.link_ns = r.step_ns = 0, r.steps = 0;
    reset_events();
  }
  void reset_events() {
    for (recorder& r : workers_) r.clear();
  }

 private:
  GPIPE_COLD void add_stage(const network& net, const runtime_plan& plan, int r, int s) {
    stage_report its;
    its.stage = s, its.first = plan.cut().first[s], its.last = plan.cut().first[s + 1];
    its.predicted_share = plan.share(s);
    its.bytes = static_cast<std::size_t>(plan.memory[static_cast<std::size_t>(s)].total());
    for (int l = its.first; l < its.last; ++l)
      if (net.owns(l)) its.parameters += net.row_of(l).parameter_elements();
    its.replica = r, its.worker = r * plan.workers() + plan.worker_of(s);
    stages_.push_back(its);
  }

  std::vector<stage_report> stages_;  // [replica][stage]
  std::vector<recorder> workers_;
};

}  // namespace gpipe
