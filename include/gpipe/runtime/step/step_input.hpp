#pragma once

#include <limits>
#include <utility>
#include <vector>

#include <gpipe/core/clock.hpp>
#include <gpipe/core/index.hpp>
#include <gpipe/plan/step_plan.hpp>
#include <gpipe/runtime/step/batch_check.hpp>
#include <gpipe/runtime/step/step_context.hpp>

namespace gpipe::detail {

/// Details of a call in addition to its kind and its batch.
struct call_terms {
  int samples_before = 0;  ///< of the mini-batch, in accumulated calls; rows before those of a prediction
  tensor_rows* predicted = nullptr;
  bool captured = false;
};

// change: step input
/// Begins each call: checks its batch and sets the step that all stages see. Holds buffers for the largest batch, so
/// that a call allocates nothing.
class step_input {
 public:
  GPIPE_COLD step_input(const network& net, const step_plan& plan, step_context& step, local_layers local = {})
      : net_(net), plan_(plan), step_(step), local_(std::move(local)) {
    step.forward_only = !plan.trains;
    step.rows.fields.resize(index(net.field_count));
    step.rows.unknown.resize(index(net.field_count));
    if (const edge_part& entering = net.values[0].part; entering.type == dtype::bf16)
      rounded_.resize(entering.size * index(plan.max_batch()));
  }

  void require_training() const {
    require_loss();
    if (!plan_.trains) throw_error({"the schedule ", plan_.schedule, " has no backward"}, {"train with another one"});
  }
  void require_loss() const {
    if (net_.loss_layer() < 0)
      throw_error({"the model has no loss"}, {"end it with a layer such as softmax_cross_entropy"});
  }

  /// Throws `error` if the batch is invalid; the step is then unspecified until the next call begins.
  GPIPE_COLD void begin(pass_kind kind, const batch& data, const call_terms& terms = {}) {
    const bool forward = kind == pass_kind::evaluate || kind == pass_kind::predict;
    if (!forward && data.samples() > 0 && data.samples() < plan_.min_batch())
      throw_error(
          {"a batch of ", several(data.samples(), "sample"), " is too small for ", plan_.replicas(), " replicas"},
          {"give at least one sample to each, or choose fewer replicas"});
    step_.began_ns = now_ns();
    step_.rows.rounded = rounded_.data();
    const int every_layer = (std::numeric_limits<int>::max)();
    check_batch(net_, data, plan_.max_batch(), step_.rows, kind == pass_kind::predict ? net_.loss_layer() : every_layer,
                local_);
    step_.begin(kind);
    step_.samples_before = terms.samples_before;
    step_.predicted = terms.predicted;
    step_.captured = terms.captured;
    step_.per_micro_batch = (data.samples() + plan_.all_micro_batches() - 1) / plan_.all_micro_batches();
  }

 private:
  const network& net_;
  const step_plan& plan_;
  step_context& step_;
  const local_layers local_;
  // assumes: half precision is bf16
  std::vector<bf16> rounded_;  // inputs of a batch of floats, for a model that reads bf16
};

}  // namespace gpipe::detail
