#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <exception>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <gpipe/core/clock.hpp>
#include <gpipe/core/index.hpp>
#include <gpipe/core/numbers/float_environment.hpp>
#include <gpipe/plan/step_plan.hpp>
#include <gpipe/runtime/processes/collective_calls.hpp>
#include <gpipe/runtime/processes/job_set_up.hpp>
#include <gpipe/runtime/processes/other_processes.hpp>
#include <gpipe/runtime/replicas/replica_list.hpp>
#include <gpipe/runtime/replicas/shared_all_reduce.hpp>
#include <gpipe/runtime/worker/failure.hpp>
#include <gpipe/runtime/worker/thread_team.hpp>
#include <gpipe/runtime/worker/watchdog.hpp>
#include <gpipe/runtime/worker/worker.hpp>
#include <gpipe/runtime/worker/worker_programs.hpp>

namespace gpipe::detail {

/// Runs one pass at a time on all workers that are here, each on its thread; the first worker is the thread that calls.
/// A pass that fails ends in every worker and in every process. Then no message is under way, and the next pass may
/// begin, unless a worker is stuck: its kernel does not return.
template <class Device>
class pass_runner {
 public:
  using rule = optimizer_update<typename Device::context>;

  /// `step` is the pass to run, and `decision` takes its result; `reports` take its times. `limits` are those of a wait
  /// between workers that are here.
  GPIPE_COLD pass_runner(const network& net, const step_plan& plan, const rule& update, const training_options& options,
                         const rank_layout& here, step_context& step, commit_decision& decision,
                         std::vector<stage_report>& reports, const wait_limits& limits)
      : net_(net),
        plan_(plan),
        options_(options),
        here_(here),
        calls_(options.job),
        programs_(plan, here),
        signals_(here.count(), limits),
        barrier_(signals_, here.count()),
        shared_{net,
                plan,
                update,
                nullptr,
                signals_,
                barrier_,
                step,
                decision,
                reports,
                options.before,
                options.average_weights > 0 ? 1 - options.average_weights : 0,
                others_},
        step_(step),
        threads_(signals_, here.count()) {}

  /// Makes the replicas and joins them. `recorder_of(rank)`: the events of a worker, null if none are kept.
  template <class Recorders>
  GPIPE_COLD void connect(const kernel_row<typename Device::context>* kernels, Recorders&& recorder_of) {
    replicas_.make(net_, plan_, here_, signals_, options_, kernels);
    connect_processes();
    shared_.sums = sums_.get();
    shared_.decision.reserve(net_, plan_.all_micro_batches());
    for (int r = 0; r < plan_.replicas(); ++r)
      for (int w = 0; w < plan_.workers(); ++w)
        if (here_.has_worker(r, w))
          workers_.emplace_back(shared_, replicas_.at(r), w, static_cast<int>(workers_.size()),
                                recorder_of(r * plan_.workers() + w));
    // A kernel of another worker fails the call within a second after the deadline. That of the first worker, the
    // thread that calls, cannot.
    constexpr std::chrono::nanoseconds more = std::chrono::seconds(1);
    if (options_.deadline < (std::chrono::nanoseconds::max)() - more)
      watchdog_.emplace(
          options_.on_deadline == deadline_action::abort ? static_cast<int>(workers_.size()) : 1,
          options_.deadline + more,
          [this](int w) {
            detail::activity now = workers_[detail::index(w)].activity();
            if (now.layer == nullptr && options_.job != nullptr) now.waits = true;  // perhaps for another process
            return now;
          },
          [this](int w) {
            std::fprintf(stderr, "gpipe: %s\n", stuck_error(w).what());
            std::abort();
          });
  }

  /// Whether a worker is stuck. Then its thread may use all that the pass uses until the process ends.
  bool stuck() const noexcept { return stuck_.has_value(); }
  /// Throws why no pass can run any more.
  void require_not_stuck() const {
    if (stuck_) throw error(stuck_->wrong(), stuck_->remedy(), stuck_->where());
  }

  const replica_list<Device>& replicas() const { return replicas_; }
  const detail::collective_calls& calls() const { return calls_; }

  /// One pass. On failure throws the first cause.
  void run() {
    const auto& programs = step_.trains() ? programs_.training() : programs_.forward();
    replicas_.each([this](auto& it) { it.begin(step_); });
    if (watchdog_) watchdog_->begin_pass();
    try {
      const default_float_environment exact;
      calls_.enter(net_, step_, shared_.decision.terms);
      const auto work = [&](int w) {
        const std::size_t at = detail::index(w);
        workers_[at].run(programs[at % programs.size()], step_.clears());
      };
      if (options_.job != nullptr) work(0);
      else threads_.run(work);
    } catch (const detail::worker_is_stuck& found) {
      stuck_.emplace(stuck_error(found.worker));
      if (found.cause) try {
          std::rethrow_exception(found.cause);
        } catch (...) {
          std::throw_with_nested(error(stuck_->wrong(), stuck_->remedy(), stuck_->where()));
        }
      require_not_stuck();
    } catch (...) {
      calls_.abandon();  // before devices are waited for
      clean_up();
      add_time();
      calls_.leave();
      throw;
    }
    add_time();
  }

  /// After a pass that does not commit. In a commit the workers do this at their barrier.
  void sum_partials() const noexcept {
    const default_float_environment exact;
    shared_.sum_partials();
  }
  void decide() const noexcept {
    const default_float_environment exact;
    shared_.sum_partials();
    shared_.decision.decide();
  }

  /// The last pass had a number that is not finite, after `accumulated` calls of its step: runs it again as a
  /// diagnosis, and throws an error that names the first layer with such a number.
  [[noreturn]] GPIPE_COLD void throw_nonfinite(int accumulated) {
    detail::throw_nonfinite(step_, shared_.decision, accumulated, [this] {
      run();
      if (step_.repeated == pass_kind::accumulate) decide();
    });
  }

 private:
  // Channels to other processes, and the all-reduce over replicas. Every process makes its channel ends in this order.
  GPIPE_COLD void connect_processes() {
    if (options_.job == nullptr) {
      if (plan_.replicas() > 1) sums_ = std::make_unique<shared_all_reduce<Device>>(net_, plan_, signals_, replicas_);
      return;
    }
    sums_ = options_.job.set_up().connect(*options_.job, net_, plan_, replicas_.at(here_.replica()), others_);
  }

  GPIPE_COLD error stuck_error(int w) const {
    return detail::stuck_error(w, options_.deadline, workers_[detail::index(w)].position());
  }

  // The work of a failed pass is dropped.
  GPIPE_COLD void clean_up() {
    replicas_.each_stage([](auto& stage) { stage.settle(); });
    replicas_.each([](auto& it) {
      for (auto& w : it.channels()) w.reset();
    });
    if (sums_) sums_->reset();
  }
  void add_time() const {
    if (!step_.is_timed()) return;
    const std::int64_t ns = now_ns() - step_.began_ns;
    for (stage_report& r : shared_.reports) r.step_ns += ns, ++r.steps;
  }

  const network& net_;
  const step_plan& plan_;
  const training_options& options_;
  const rank_layout& here_;
  detail::collective_calls calls_;
  replica_list<Device> replicas_;
  std::unique_ptr<all_reduce> sums_;  // null: there is one replica
  other_processes others_;
  detail::worker_programs programs_;
  worker_signals signals_;
  barrier barrier_;
  worker_context<Device> shared_;
  step_context& step_;
  std::deque<worker<Device>> workers_;  // they do not move
  thread_team threads_;                 // behind what its tasks use, for its threads end first
  std::optional<error> stuck_;
  std::optional<detail::watchdog> watchdog_;
};

}  // namespace gpipe::detail
