#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <span>
#include <vector>

#include <gpipe/core/clock.hpp>
#include <gpipe/core/config.hpp>
#include <gpipe/device/contract/device_functions.hpp>
#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/record/stage_report.hpp>
#include <gpipe/record/trace.hpp>
#include <gpipe/runtime/link/link_channels.hpp>
#include <gpipe/runtime/step/step_context.hpp>

namespace gpipe::detail {

/// The CPU time of the calling thread, in nanoseconds. If the system does not measure it, the clock's time.
inline std::int64_t thread_cpu_ns() noexcept {
#if defined(CLOCK_THREAD_CPUTIME_ID)
  timespec used{};
  if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used) == 0)
    return std::int64_t{used.tv_sec} * 1'000'000'000 + used.tv_nsec;
#endif
  return now_ns();
}

/// Measures how long a worker's thread was not running in an action, apart from its waits: other threads had the cores,
/// or the action itself slept.
///
///     time not running  =  the clock's time  -  the thread's CPU time  -  waits
///
/// Reading the CPU time is a system call (0.2 us; the clock takes 0.02 us). It is read at the end of an action if
/// `pause_ns` have passed since the last reading, which takes less than 0.3 % of the time. An action that was not
/// running for longer than the pause therefore ends with a reading. Shorter times add up until the next reading, and
/// count for the action that ends there.
class core_time {
 public:
  static constexpr std::int64_t pause_ns = 100'000;

  explicit core_time(std::int64_t (*read)() noexcept = thread_cpu_ns) : read_(read) {}

  /// Starts a pass at `begin_ns`, in the calling thread.
  void open(std::int64_t begin_ns) {
    clock_ns_ = begin_ns;
    core_ns_ = read_();
    waited_ns_ = 0;
  }
  /// Ends an action that waited `wait_ns`, asleep or not. Returns the nanoseconds that count as not running.
  std::int64_t not_running(std::int64_t begin_ns, std::int64_t end_ns, std::int64_t wait_ns) {
    waited_ns_ += wait_ns;
    return end_ns - clock_ns_ < pause_ns ? 0 : measure(begin_ns, end_ns, wait_ns);
  }

 private:
  GPIPE_OUT_OF_LINE std::int64_t measure(std::int64_t begin_ns, std::int64_t end_ns, std::int64_t wait_ns) {
    const std::int64_t last_clock_ns = clock_ns_, last_core_ns = core_ns_, waits_ns = waited_ns_;
    open(end_ns);
    const std::int64_t busy_ns = (std::max)(std::int64_t{0}, end_ns - begin_ns - wait_ns);
    return std::clamp(end_ns - last_clock_ns - (core_ns_ - last_core_ns) - waits_ns, std::int64_t{0}, busy_ns);
  }

  std::int64_t (*read_)() noexcept;
  std::int64_t clock_ns_ = 0, core_ns_ = 0;  ///< at the last reading
  std::int64_t waited_ns_ = 0;               ///< since the last reading
};

/// Measures when the actions of a worker run on its device. Moments, the device's timestamps, are recorded while
/// actions are enqueued, and read when all have finished. On a device without moments an action ends when its call
/// returns, and the timer does nothing.
class device_timer {
 public:
  explicit device_timer(const device_functions& device) : device_(device.has_moments() ? &device : nullptr) {}
  bool on() const { return on_; }

  /// Starts a pass of at most `actions` actions; `enabled`: its times are recorded. The first such pass allocates.
  void open(bool enabled, std::size_t actions, int stages) {
    on_ = enabled && device_ != nullptr;
    size_ = 0;
    if (!on_) return;
    if (actions_.size() < actions) {
      actions_.resize(actions);
      times_ = {device_->make_moments(2 * actions), device_->free_moments};
    }
    if (over_.get() == nullptr) over_ = {device_->make_moments(detail::index(stages)), device_->free_moments};
  }

  /// Records the start of the next action. A second call replaces the first: work between the two is not counted.
  void begin(const device_context& c) {
    if (on_) c.note(times_.get(), 2 * size_);
  }
  void end(const device_context& c, const instruction& action) {
    if (!on_) return;
    c.note(times_.get(), 2 * size_ + 1);
    actions_[size_++] = action;
  }
  /// Records the end of all work of the stage.
  void over(const device_context& c, int stage) {
    if (on_) c.note(over_.get(), detail::index(stage));
  }

  /// Calls f(instruction, begin_ns, end_ns) for each action in order, in times of the host's clock: a moment is placed
  /// by its distance from the end of all work, which the host saw at `over_ns`.
  template <class F>
  void each(std::int64_t over_ns, F&& f) const {
    for (std::size_t i = 0; i < size_; ++i) {
      const std::size_t stage = detail::index(actions_[i].stage);
      f(actions_[i], over_ns - device_->ns_between(times_.get(), 2 * i, over_.get(), stage),
        over_ns - device_->ns_between(times_.get(), 2 * i + 1, over_.get(), stage));
    }
  }

 private:
  const device_functions* device_;
  std::vector<instruction> actions_;
  device_object times_, over_;  ///< moments: [action][begin, end]; [stage], the end of all its work
  std::size_t size_ = 0;        ///< the number of actions recorded
  bool on_ = false;
};

/// Measures a worker's actions, for the reports of its stages and for its trace. An action begins at the end of the
/// previous one. If a device runs work later than it is enqueued, the device's times are reported.
class action_timer {
 public:
  /// `step` and `reports` [stage] are the replica's; `worker` is the number in the replica. `trace` may be null.
  action_timer(const step_context& step, int replica, int worker, std::span<stage_report> reports, recorder* trace,
               const device_functions& device)
      : step_(step), replica_(replica), worker_(worker), reports_(reports), trace_(trace), device_(device) {}

  /// Starts a pass of this number of instructions.
  void open(std::size_t instructions) {
    opened_ns_ = ended_ns_ = now_ns();
    begin();
    if (trace_ != nullptr) core_.open(opened_ns_);
    device_.open(!step_.captured && (step_.is_timed() || trace_ != nullptr), instructions,
                 static_cast<int>(reports_.size()));
  }
  /// Ends the preparation of the pass, most of which clears gradients or gathers parameters. Its time is reported as
  /// `reduce` of this stage.
  void prepared(int stage) {
    const auto end_ns = now_ns();
    if (step_.is_timed()) {
      report(stage).busy(action_kind::reduce) += end_ns - ended_ns_ - waited_ns_;
      report(stage).wait_ns += waited_ns_;
    }
    if (trace_ != nullptr) core_.not_running(ended_ns_, end_ns, 0);  // counts for no action
    ended_ns_ = end_ns;
  }

  /// Starts an action. The calls below add its waits, except in sends and receives, and its copies for other stages.
  void begin() { waited_ns_ = copied_ns_ = 0; }
  template <class Call>
  void waiting(Call&& call) {
    waited_ns_ += duration_of(call);
  }
  void waited(std::int64_t ns) { waited_ns_ += ns; }
  template <class Call>
  void copying(Call&& call) {
    copied_ns_ += duration_of(call);
  }
  /// Ends `action`; `io` has measured its sends and receives.
  void end(const instruction& action, const stage_io& io, std::int64_t end_ns = now_ns()) {
    account(action, io, end_ns);
    ended_ns_ = end_ns;
  }

  /// Records when actions begin and end on the device.
  device_timer& on_device() { return device_; }
  /// Ends the pass; the device must have finished. The times between actions, and of actions that receive, count as
  /// waits.
  GPIPE_OUT_OF_LINE void close() {
    auto last = opened_ns_;
    device_.each(now_ns(), [&](const instruction& action, std::int64_t begin, std::int64_t end) {
      const bool waits = action.kind == action_kind::receive_activation || action.kind == action_kind::receive_gradient;
      if (step_.is_timed()) {
        report(action.stage).wait_ns += (std::max)(std::int64_t{0}, begin - last) + (waits ? end - begin : 0);
        if (!waits) report(action.stage).busy(action.kind) += end - begin;
      }
      trace(action, begin, end, 0, 0);
      last = end;
    });
  }

 private:
  template <class Call>
  static std::int64_t duration_of(Call&& call) {
    const auto begin_ns = now_ns();
    call();
    return now_ns() - begin_ns;
  }
  stage_report& report(int stage) { return reports_[index(stage)]; }

  void account(const instruction& action, const stage_io& io, std::int64_t end_ns) {
    if (step_.is_timed()) report(action.stage).link_ns += io.linked();
    if (device_.on()) return;  // the host's times are those of enqueueing
    const std::int64_t waited = waited_ns_ + io.waited();
    if (step_.is_timed()) {
      stage_report& r = report(action.stage);
      r.busy(action.kind) += end_ns - ended_ns_ - waited - copied_ns_;
      r.busy(action_kind::send_activation) += copied_ns_;
      r.wait_ns += waited;
    }
    if (trace_ != nullptr) trace(action, ended_ns_, end_ns, waited, core_.not_running(ended_ns_, end_ns, waited));
  }
  void trace(const instruction& action, std::int64_t begin, std::int64_t end, std::int64_t waited,
             std::int64_t not_running) {
    if (trace_ == nullptr) return;
    const int m = action.micro_batch < 0 ? -1 : step_.global_micro_batch(action.micro_batch);
    const int step = step_.is_recorded() ? static_cast<int>(step_.step) : -1;
    trace_->record({begin, end, action.kind, action.stage, m, replica_, worker_, step, waited, not_running});
  }

  const step_context& step_;
  int replica_, worker_;
  std::span<stage_report> reports_;
  recorder* trace_;
  std::int64_t opened_ns_ = 0, ended_ns_ = 0;   ///< the start of the pass; the end of the previous action
  std::int64_t waited_ns_ = 0, copied_ns_ = 0;  ///< in the current action
  core_time core_;                              ///< used with a trace only
  device_timer device_;
};

}  // namespace gpipe::detail
