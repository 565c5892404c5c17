#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include <gpipe/core/clock.hpp>
#include <gpipe/core/index.hpp>
#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/record/stage_report.hpp>
#include <gpipe/record/trace.hpp>
#include <gpipe/runtime/link/stage_io.hpp>
#include <gpipe/runtime/step/step_context.hpp>
#include <gpipe/runtime/worker/core_time.hpp>
#include <gpipe/runtime/worker/device_timer.hpp>

namespace gpipe::detail {

/// Times a worker's actions, for the reports of its stages and for its trace. An action lasts from the end of the one
/// before. If a device runs work later than it is enqueued, the device's own times count.
class action_timer {
 public:
  /// `step` and `reports`, [stage], are the replica's; `worker` is its number there. `trace` null: no trace is kept.
  action_timer(const step_context& step, int replica, int worker, std::span<stage_report> reports, recorder* trace,
               const device_functions& device)
      : step_(step), replica_(replica), worker_(worker), reports_(reports), trace_(trace), device_(device) {}

  /// A pass of this number of instructions begins.
  void open(std::size_t instructions) {
    opened_ns_ = ended_ns_ = now_ns();
    begin();
    if (trace_ != nullptr) core_.open(opened_ns_);
    device_.open(!step_.captured && (step_.is_timed() || trace_ != nullptr), instructions,
                 static_cast<int>(reports_.size()));
  }
  /// Ends the preparation of the pass, most of which clears gradients, or gathers parameters. Its time counts as this
  /// stage's.
  void prepared(int stage) {
    const auto end_ns = now_ns();
    if (step_.is_timed()) {
      report(stage).busy(action_kind::reduce) += end_ns - ended_ns_ - waited_ns_;
      report(stage).wait_ns += waited_ns_;
    }
    if (trace_ != nullptr) core_.not_running(ended_ns_, end_ns, 0);  // of no action
    ended_ns_ = end_ns;
  }

  /// An action begins. Besides its sends and receives the worker may wait in it, or copy values that others read.
  void begin() { waited_ns_ = copied_ns_ = 0; }
  template <class Call>
  void waiting(Call&& call) {
    waited_ns_ += taken_by(call);
  }
  void waited(std::int64_t ns) { waited_ns_ += ns; }
  template <class Call>
  void copying(Call&& call) {
    copied_ns_ += taken_by(call);
  }
  /// `action` ends; `io` has its sends and receives.
  void end(const instruction& action, const stage_io& io, std::int64_t end_ns = now_ns()) {
    account(action, io, end_ns);
    ended_ns_ = end_ns;
  }

  /// Records when actions begin and end on the device.
  device_timer& on_device() { return device_; }
  /// The pass is over, and the device has finished. A device waits for others between actions and in those that
  /// receive.
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
  static std::int64_t taken_by(Call&& call) {
    const auto begin = now_ns();
    call();
    return now_ns() - begin;
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
  std::int64_t opened_ns_ = 0, ended_ns_ = 0;   ///< the begin of the pass; the end of the action before
  std::int64_t waited_ns_ = 0, copied_ns_ = 0;  ///< in this action
  core_time core_;                              ///< used with a trace only
  device_timer device_;
};

}  // namespace gpipe::detail
