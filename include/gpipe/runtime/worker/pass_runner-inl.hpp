#pragma once

#include <gpipe/core/clock.hpp>
#include <gpipe/core/config.hpp>
#include <gpipe/runtime/worker/pass_runner.hpp>

namespace gpipe::detail {

GPIPE_INLINE GPIPE_COLD pass_runner::pass_runner(const device_functions& device, const network& net,
                                                 const step_plan& plan, const rule& update,
                                                 const training_options& options, const rank_layout& ranks,
                                                 step_context& step, commit_decision& decision,
                                                 std::vector<stage_report>& reports, const wait_limits& limits)
    : device_(device),
      options_(options),
      ranks_(ranks),
      calls_(options.job),
      cores_(options.cores, ranks.count(), options.job == nullptr ? host_cores{} : options.job->on_this_host()),
      signals_(ranks.count(), local_limits(limits)),
      barrier_(signals_, ranks.count()),
      step_(step),
      threads_(signals_, ranks.count(), &cores_) {
  add_run(net, plan, update, decision, reports);
  active_.store(&runs_.front(), std::memory_order_relaxed);
}

GPIPE_INLINE void pass_runner::require_not_stuck() const {
  if (stuck_) throw error(stuck_->wrong(), stuck_->remedy(), stuck_->where());
}

GPIPE_INLINE void pass_runner::run(bool whole) {
  plan_run& run = active_run();
  step_.gathers = gathers_;
  run.replicas.each([this](auto& replica) { replica.begin(step_); });
  if (watchdog_) watchdog_->begin_pass();
  try {
    const default_float_environment exact;
    calls_.enter(run.net, step_, run.shared.decision.terms);
    // Small enough for a std::function that allocates nothing.
    threads_.run([this, whole](int w) { calls_.report_failure([&] { work(w, whole); }); });
  } catch (const detail::worker_is_stuck& found) {
    stuck_.emplace(stuck_error(found.worker));
    if (found.cause) try {
        std::rethrow_exception(found.cause);
      } catch (...) {
        std::throw_with_nested(error(stuck_->wrong(), stuck_->remedy(), stuck_->where()));
      }
    require_not_stuck();
  } catch (const interrupted&) {  // of all workers here: the cause is in another process
    drop();
    throw_error({"no worker made progress for ", duration_text(options_.deadline)},
                {"see what the workers do, or raise the deadline"});
  } catch (...) {
    drop();
    throw;
  }
  add_time();
  gathers_ = step_.applies() && run.plan.options.shares() > 1;
}

GPIPE_INLINE GPIPE_COLD void pass_runner::gather() {
  if (!gathers_) return;
  step_.begin(pass_kind::evaluate);
  run(false);
}

GPIPE_INLINE void pass_runner::sum_partials() const noexcept {
  const default_float_environment exact;
  active_run().shared.sum_partials();
}

GPIPE_INLINE void pass_runner::decide() const noexcept {
  const default_float_environment exact;
  active_run().shared.sum_partials();
  active_run().shared.decision.decide();
}

GPIPE_INLINE GPIPE_COLD void pass_runner::throw_nonfinite(int accumulated) {
  detail::throw_nonfinite(step_, active_run().shared.decision, accumulated, [this] {
    run();
    if (step_.repeated == pass_kind::accumulate) decide();
  });
}

GPIPE_INLINE GPIPE_COLD pass_runner::plan_run& pass_runner::add_run(const network& net, const step_plan& plan,
                                                                    const rule& update, commit_decision& decision,
                                                                    std::vector<stage_report>& reports) {
  const double share = options_.average_weights > 0 ? 1 - options_.average_weights : 0;
  return runs_.emplace_back(plan_run{net,
                                     plan,
                                     {plan, ranks_},
                                     {device_, net, plan, update, nullptr, signals_, barrier_, step_, decision, reports,
                                      options_.before, share, processes_}});
}

GPIPE_INLINE GPIPE_COLD void pass_runner::connect_processes(plan_run& run) {
  if (options_.job == nullptr) {
    if (run.plan.replicas() > 1)
      run.sums = std::make_unique<shared_all_reduce>(device_, run.net, run.plan, signals_, run.replicas);
    return;
  }
  run.sums =
      options_.job.set_up().connect(*options_.job, run.net, run.plan, run.replicas.at(ranks_.replica()), processes_);
}

GPIPE_INLINE void pass_runner::work(int w, bool whole) {
  plan_run& run = active_run();
  worker& runner = run.workers[detail::index(w)];
  if (!whole) return runner.run({}, false);
  const auto& programs = step_.trains() ? run.programs.training() : run.programs.forward();
  runner.run(programs[detail::index(w) % programs.size()], step_.clears());
}

GPIPE_INLINE GPIPE_COLD error pass_runner::stuck_error(int w) const {
  return detail::stuck_error(w, options_.deadline, active_run().workers[detail::index(w)].position());
}

GPIPE_INLINE wait_limits pass_runner::local_limits(wait_limits limits) const {
  if (options_.job != nullptr && ranks_.count() > 1) limits.deadline = (std::chrono::nanoseconds::max)();
  return cores_.limits_of(limits);
}

GPIPE_INLINE GPIPE_COLD void pass_runner::place(const plan_run& run) const {
  for (stage_report& r : run.shared.reports) {
    const int w = run.plan.worker_of(r.stage);
    if (!ranks_.has_worker(r.replica, w)) continue;
    const int number = ranks_.number_here(r.replica, w);
    r.own_cores = cores_.count(number), r.core_sharers = cores_.sharers(number);
    if (device_.is_synchronous()) {
      const auto& memory = run.replicas.at(r.replica).stage(r.stage).arena();
      r.far_memory = !cores_.move_near(memory.data(), memory.size(), number);
    }
  }
}

GPIPE_INLINE GPIPE_COLD void pass_runner::drop() {
  calls_.abandon();  // before devices are waited for
  clean_up();
  add_time();
  calls_.leave();
}

GPIPE_INLINE GPIPE_COLD void pass_runner::clean_up() {
  const plan_run& run = active_run();
  run.replicas.each_stage([](auto& stage) { stage.settle(); });
  run.replicas.each([](auto& replica) {
    for (auto& w : replica.channels()) w.reset();
  });
  if (run.sums) run.sums->reset();
}

GPIPE_INLINE void pass_runner::add_time() const {
  if (!step_.is_timed()) return;
  const std::int64_t ns = now_ns() - step_.began_ns;
  for (stage_report& r : active_run().shared.reports) r.step_ns += ns, ++r.steps;
}

}  // namespace gpipe::detail
