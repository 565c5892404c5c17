#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <exception>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/core/numbers/float_environment.hpp>
#include <gpipe/device/contract/device_concept.hpp>
#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/plan/step_plan.hpp>
#include <gpipe/runtime/processes/collective_calls.hpp>
#include <gpipe/runtime/processes/other_processes.hpp>
#include <gpipe/runtime/processes/rank_layout.hpp>
#include <gpipe/runtime/replicas/all_reduce.hpp>
#include <gpipe/runtime/replicas/replica.hpp>
#include <gpipe/runtime/worker/failure.hpp>
#include <gpipe/runtime/worker/thread_team.hpp>
#include <gpipe/runtime/worker/worker.hpp>
#include <gpipe/transport/in_process/core_placement.hpp>

namespace gpipe::detail {

/// The plan's programs of the workers of this process: for a pass that trains, and for one that only runs forward. All
/// replicas run the same programs.
class worker_programs {
 public:
  using list = std::vector<std::vector<instruction>>;  ///< [worker of a replica]

  GPIPE_COLD worker_programs(const step_plan& plan, const rank_layout& ranks) {
    for (int w = 0; w < plan.workers(); ++w) {
      if (!ranks.has_worker(ranks.replica(), w)) continue;
      training_.push_back(plan.programs[index(w)]);
      forward_.push_back(plan.forward_programs[index(w)]);
    }
  }
  const list& training() const { return training_; }
  const list& forward() const { return forward_; }

 private:
  list training_, forward_;
};

// change: a hook between backward and update
/// Runs one pass at a time on all workers of this process, each on its thread; the first worker is the calling thread.
/// It runs one plan, or one of several, for models that differ in sequence length. Then each plan has its own programs,
/// stages and channels, and all use the same workers, threads and memory. A pass that fails ends in every worker and in
/// every process. Then no message is under way, and the next pass may begin, unless a worker is stuck: its kernel does
/// not return.
class pass_runner {
 public:
  using rule = optimizer_update;

  /// `step` is the pass to run, and `decision` takes its result; `reports` take its times. `limits` apply to waits
  /// between workers of this process.
  pass_runner(const device_functions& device, const network& net, const step_plan& plan, const rule& update,
              const training_options& options, const rank_layout& ranks, step_context& step, commit_decision& decision,
              std::vector<stage_report>& reports, const wait_limits& limits);

  /// Makes the replicas and joins them. `recorder_of(replica, worker)`: the events of a worker, null if none are kept.
  template <class Recorders>
  GPIPE_COLD void connect(const kernel_row* kernels, Recorders&& recorder_of) {
    plan_run& first = runs_.front();
    first.replicas.make(device_, first.net, first.plan, ranks_, signals_, options_, kernels);
    connect_processes(first);
    first.shared.decision.reserve(first.net, first.plan.all_micro_batches());
    first.make_workers(ranks_, recorder_of);
    if (cores_) place(first);
    // A kernel of another worker fails the call within a second after the deadline. A kernel of the first worker, the
    // calling thread, cannot. In a job any such kernel ends the process, and the other processes report it.
    constexpr std::chrono::nanoseconds more = std::chrono::seconds(1);
    if (options_.deadline < (std::chrono::nanoseconds::max)() - more)
      watchdog_.emplace(
          options_.on_deadline == deadline_action::abort || options_.job != nullptr ? ranks_.count() : 1,
          options_.deadline + more, options_.deadline / 4,
          [this](int w) {
            detail::activity seen = active_run().workers[detail::index(w)].activity();
            if (seen.layer == nullptr && options_.job != nullptr) seen.waits = true;  // perhaps for another process
            return seen;
          },
          [this](int w) {
            if (options_.job != nullptr && ranks_.count() > 1)
              options_.job->runs_long(w < 0 ? detail::location{} : active_run().workers[detail::index(w)].position());
          },
          [this](int w) {
            std::fprintf(stderr, "gpipe: %s\n", stuck_error(w).what());
            std::abort();
          });
  }

  /// Adds a plan for another length, of the same workers: its stages use the memory of the first plan's.
  template <class Recorders>
  GPIPE_COLD void add(const network& net, const step_plan& plan, const kernel_row* kernels, Recorders&& recorder_of) {
    const plan_run& first = runs_.front();
    plan_run& added = add_run(net, plan, first.shared.rule, first.shared.decision, first.shared.reports);
    added.replicas.make(device_, net, plan, ranks_, signals_, options_, kernels, &first.replicas);
    connect_processes(added);
    added.make_workers(ranks_, recorder_of);
  }
  /// The next passes run this plan: 0 is the first, then those in the order in which they were added.
  void use(std::size_t plan) { active_.store(&runs_[plan], std::memory_order_release); }
  std::size_t plans() const { return runs_.size(); }

  /// Whether a worker is stuck. Then its thread may use all that the pass uses until the process ends.
  bool stuck() const noexcept { return stuck_.has_value(); }
  /// Throws why no pass can run any more.
  void require_not_stuck() const;

  /// The replicas of a plan. The memory that lasts from step to step is the same in all plans.
  const replica_list& replicas(std::size_t plan = 0) const { return runs_[plan].replicas; }
  const detail::collective_calls& calls() const { return calls_; }

  /// One pass. On failure throws the first cause. Not `whole`: it only gathers parameters that other replicas have
  /// updated.
  void run(bool whole = true);
  /// If replicas keep shares: parameters have changed only in the replica's own share.
  void gather_before_next() { gathers_ = active_run().plan.trains && active_run().plan.options.shares() > 1; }

  /// Makes the parameters of all replicas the same now.
  void gather();

  /// After a pass that does not commit. In a commit the workers do this at their barrier.
  void sum_partials() const noexcept;
  void decide() const noexcept;

  /// The last pass had a number that is not finite, after `accumulated` calls of its step: runs it again as a
  /// diagnosis, and throws an error that names the first layer with such a number.
  [[noreturn]] void throw_nonfinite(int accumulated);

 private:
  /// A plan and the objects that run it. Its workers share the objects of `shared`.
  struct plan_run {
    const network& net;
    const step_plan& plan;
    detail::worker_programs programs;
    worker_context shared;
    replica_list replicas{};
    std::unique_ptr<all_reduce> sums{};  // null: there is one replica
    std::deque<worker> workers{};        // they do not move

    template <class Recorders>
    GPIPE_COLD void make_workers(const rank_layout& ranks, Recorders&& recorder_of) {
      shared.sums = sums.get();
      for (int r = 0; r < plan.replicas(); ++r)
        for (int w = 0; w < plan.workers(); ++w)
          if (ranks.has_worker(r, w))
            workers.emplace_back(shared, replicas.at(r), w, static_cast<int>(workers.size()), recorder_of(r, w));
    }
  };

  plan_run& add_run(const network& net, const step_plan& plan, const rule& update, commit_decision& decision,
                    std::vector<stage_report>& reports);
  plan_run& active_run() const { return *active_.load(std::memory_order_acquire); }

  // Channels to other processes, and the all-reduce over replicas. Every process makes its channel ends in this order.
  void connect_processes(plan_run& run);

  // The part of one worker.
  void work(int w, bool whole);

  error stuck_error(int w) const;

  // A wait between workers of one process of a job may depend on another process, whose progress counts. So it lasts
  // until a wait for that process ends, or the watchdog finds a kernel that does not return.
  wait_limits local_limits(wait_limits limits) const;
  // change: core binding
  // Moves the memory of each stage, which is the host's, to its worker.
  void place(const plan_run& run) const;
  // In a handler: drops the work of the failed pass. Throws the first cause among all processes, if there are several.
  void drop();
  void clean_up();
  void add_time() const;

  const device_functions& device_;
  const training_options& options_;
  const rank_layout& ranks_;
  detail::collective_calls calls_;
  worker_cores cores_;  // before members that use them or have threads bound to them
  std::deque<plan_run> runs_;
  std::atomic<plan_run*> active_{nullptr};  // the watchdog reads it, too
  other_processes processes_;
  worker_signals signals_;
  barrier barrier_;
  step_context& step_;
  bool gathers_ = false;  // the next pass gathers parameters that other replicas have updated
  thread_team threads_;   // after the members that its tasks use, because its threads end first
  std::optional<error> stuck_;
  std::optional<detail::watchdog> watchdog_;
};

}  // namespace gpipe::detail

#if !GPIPE_COMPILED
#include <gpipe/runtime/worker/pass_runner-inl.hpp>
#endif
