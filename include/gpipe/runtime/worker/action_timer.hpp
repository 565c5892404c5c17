#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include <gpipe/record/stage_report.hpp>
#include <gpipe/record/trace.hpp>
#include <gpipe/runtime/link/stage_io.hpp>
#include <gpipe/runtime/step/step_context.hpp>
#include <gpipe/runtime/worker/device_timer.hpp>

namespace gpipe::detail {

/// What a worker did when, for the reports of its stages and for its trace: an action lasts from the end of the one
/// before. Where a device works later it is the device's times that count, which are noted while it is asked.
template <class Device>
class timesheet {
 public:
  /// `step` is the replica's, and so are `reports`, one a stage. `trace` null: there is none.
  timesheet(const step_state& step, int replica, std::span<stage_report> reports, recorder* trace)
      : step_(step), replica_(replica), reports_(reports), trace_(trace) {}

  /// A pass over so many instructions begins.
  void open(std::size_t instructions) {
    opened_ns_ = ended_ns_ = now_ns();
    device_.open(!step_.written && (step_.measured || trace_ != nullptr), instructions,
                 static_cast<int>(reports_.size()));
  }
  /// Until now the pass was prepared: by the clearing of gradients, above all, which is told of this stage.
  void prepared(int stage) {
    const auto now = now_ns();
    if (step_.measured) report(stage).busy(act::reduce) += now - ended_ns_;
    ended_ns_ = now;
  }

  /// An action begins; in it the worker waits for others, beside its hand-overs, or copies what others read.
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
  /// What was done until now, with these hand-overs, was this.
  void end(const instruction& i, const handover<Device>& passes, std::int64_t now = now_ns()) {
    account(i, passes, now);
    ended_ns_ = now;
  }

  /// When actions begin and end on the device is noted here.
  device_times<Device>& on_device() { return device_; }
  /// The pass is over, and all that the device was asked for. Between actions it waits, and in those that receive, for
  /// what others have not done yet.
  GPIPE_OUT_OF_LINE void close() {
    auto last = opened_ns_;
    device_.tell(now_ns(), [&](const instruction& i, std::int64_t begin, std::int64_t end) {
      const bool waits = i.kind == act::receive_activation || i.kind == act::receive_gradient;
      if (step_.measured) {
        report(i.stage).wait_ns += (std::max)(std::int64_t{0}, begin - last) + (waits ? end - begin : 0);
        if (!waits) report(i.stage).busy(i.kind) += end - begin;
      }
      trace(i, begin, end);
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
  stage_report& report(int stage) { return reports_[static_cast<std::size_t>(stage)]; }

  void account(const instruction& i, const handover<Device>& passes, std::int64_t now) {
    if (step_.measured) report(i.stage).link_ns += passes.linked();
    if (device_.on()) return;  // these are times of asking
    if (step_.measured) {
      stage_report& its = report(i.stage);
      const std::int64_t waited = waited_ns_ + passes.waited();
      its.busy(i.kind) += now - ended_ns_ - waited - copied_ns_;
      its.busy(act::send_activation) += copied_ns_;
      its.wait_ns += waited;
    }
    trace(i, ended_ns_, now);
  }
  void trace(const instruction& i, std::int64_t begin, std::int64_t end) {
    if (trace_ == nullptr) return;
    const int m = i.micro_batch < 0 ? -1 : step_.among_all(i.micro_batch);
    trace_->record({begin, end, i.kind, i.stage, m, -1, replica_});
  }

  const step_state& step_;
  int replica_;
  std::span<stage_report> reports_;
  recorder* trace_;
  std::int64_t opened_ns_ = 0, ended_ns_ = 0;  ///< the pass; the action before
  std::int64_t waited_ns_ = 0, copied_ns_ = 0;  ///< in this action
  [[no_unique_address]] device_times<Device> device_;
};

}  // namespace gpipe::detail
