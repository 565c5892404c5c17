#pragma once

#include <limits>
#include <vector>

#include <gpipe/plan/runtime_plan.hpp>
#include <gpipe/record/trace.hpp>
#include <gpipe/runtime/step/step_context.hpp>

namespace gpipe::detail {

/// Takes the batch of a call in: checks it, and tells the step what it is to do with it. Holds room for what a batch
/// may bring, so that calls allocate nothing.
class intake {
 public:
  static constexpr int every_layer = (std::numeric_limits<int>::max)();

  GPIPE_ONCE intake(const network& net, const run_plan& plan, step_state& step) : net_(net), plan_(plan), step_(step) {
    step.rows.fields.resize(static_cast<std::size_t>(net.field_count));
    if (const edge_part& entering = net.values[0].part; entering.type == dtype::bf16)
      rounded_.resize(entering.size * static_cast<std::size_t>(plan.most_samples()));
    step.rows.rounded = rounded_.data();
  }

  void require_training() const {
    require_loss();
    if (!plan_.schedule.trains)
      refuse({"the schedule ", plan_.schedule.name(), " has no backward"}, {"train with another one"});
  }
  void require_loss() const {
    if (net_.loss_slot() < 0) refuse({"the model has no loss"}, {"end it with a layer such as softmax_cross_entropy"});
  }

  /// Into a mini-batch that has `earlier` samples.
  void to_train(const batch& data, int earlier) {
    if (data.samples() > 0 && data.samples() < plan_.least_samples())
      refuse({"a batch of ", several(data.samples(), "sample"), " is too small for ", plan_.replicas(), " replicas"},
             {"give at least one sample to each, or choose fewer replicas"});
    take(data, true, earlier, every_layer);
  }
  /// Only layers before the slot `end` run.
  void to_run_forward(const batch& data, int end = every_layer) { take(data, false, 0, end); }

  /// When the batch came.
  std::int64_t came_ns() const { return came_ns_; }

 private:
  GPIPE_ONCE void take(const batch& data, bool training, int earlier, int end) {
    came_ns_ = now_ns();
    check_batch(net_, data, plan_.most_samples(), step_.rows, end);
    step_.samples_before = earlier;
    step_.predicted = nullptr;
    step_.commits = true;
    step_.per_micro_batch = (data.samples() + plan_.all_micro_batches() - 1) / plan_.all_micro_batches();
    step_.training = training;
    step_.examining = step_.written = false;
    step_.applied = true;
    step_.measured = training || !plan_.schedule.trains;
  }

  const network& net_;
  const run_plan& plan_;
  step_state& step_;
  std::int64_t came_ns_ = 0;
  std::vector<bf16> rounded_;  // a batch's inputs, where it has floats and the model takes bf16
};

}  // namespace gpipe::detail
