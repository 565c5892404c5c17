#pragma once

#include <memory>
#include <optional>
#include <vector>

#include <gpipe/plan/runtime_plan.hpp>
#include <gpipe/record/trace.hpp>
#include <gpipe/runtime/hooks/activation_recorder.hpp>
#include <gpipe/runtime/hooks/canary.hpp>
#include <gpipe/runtime/hooks/layer_timer.hpp>
#include <gpipe/runtime/hooks/nonfinite_finder.hpp>

namespace gpipe::detail {

/// Who looks on while a stage runs its layers: the examiner, in a call that is replayed; the observer of what is
/// watched or hashed; the canary; the stopwatch. Nobody, unless asked for: then a look is a branch that is not taken.
///
///     before_forward  | forward        |                                           | after_forward
///     before_backward | input part     | ran_input_part, sums with other readers'  | after_input_part
///                     | parameter part | ran_parameter_part                        | after_parameter_part
template <class Context>
class layer_hooks {
 public:
  using bound = bound_slot<Context>;
  using bound_slots = std::vector<bound>;

  /// Of a stage that works by this context.
  layer_hooks(const Context& context, const network& net, const runtime_plan& plan, int stage)
      : context_(context), net_(net), plan_(plan), stage_(stage), recorder_(net, plan.options.optimizer_moments) {}

  /// Who is asked for is told once the stage is bound.
  GPIPE_COLD void poison(const bound_slots& slots) {
    canary_.emplace(stage_view(net_, plan_.cut(), stage_), plan_.requirements(stage_), slots);
  }
  GPIPE_COLD void time_slots(bool on) {
    if (!on) watch_.reset();
    else if (!watch_) watch_ = std::make_unique<layer_timer>(plan_.cut().first[stage_ + 1] - first());
  }
  const layer_timer* watch() const { return watch_.get(); }
  void note_in(digest& into) {
    recorder_.note_in(into);
    observed_ = true;
  }
  /// It has changed which of the slots are watched.
  void look_at(const bound_slots& slots) {
    observed_ = recorder_.notes();
    for (const bound& b : slots) observed_ = observed_ || b.watched != nullptr;
  }

  /// Whether somebody looks between one micro-batch and the next.
  bool look(const step_context& step) const { return observed_ || step.examining || canary_; }

  void before_forward(const bound& b, const step_context& step, int m, bool again) const {
    if (step.examining) examine().look_at_inputs(b, step, m, again);
  }
  void after_forward(const bound& b, const call& done, const step_context& step, int m) {
    if (step.examining) examine().look_at_outputs(b, step, m, done);
    if (observed_ && !done.recompute) recorder_.after_forward(context_, b, done, step, m);
    if (canary_) canary_->after_forward(context_, b.slot, m, done.recompute);
  }

  /// The gradients of the outputs are complete.
  void before_backward(const bound& b, const step_context& step, int m) const {
    if (observed_) recorder_.before_backward(context_, b, step, m);
  }
  /// The layer's own parts of its inputs' gradients are there, and not yet added to those of other readers.
  void ran_input_part(const bound& b, const step_context& step, int m) {
    if (observed_) recorder_.after_input_part(context_, b, step, m);
  }
  void ran_parameter_part(const bound& b, const step_context& step, int m) {
    if (observed_) recorder_.after_parameter_part(context_, b, step, m);
  }
  /// Also of a layer that has no such part.
  void after_input_part(const bound& b, const step_context& step, int m) const {
    if (step.examining) examine().look_at_input_part(b, step, m);
    if (canary_) canary_->after_input_part(context_, b.slot, m);
  }
  void after_parameter_part(const bound& b, const step_context& step, int m) const {
    if (step.examining) examine().look_at_parameter_part(b, step, m);
    if (canary_) canary_->after_parameter_part(context_, b.slot, m);
  }
  /// Of a layer whose parts come one behind the other, ...
  void after_both_parts(const bound& b, const step_context& step, int m) const {
    if (step.examining) examine().look_at_input_part(b, step, m), examine().look_at_parameter_part(b, step, m);
    if (canary_) canary_->after_input_part(context_, b.slot, m);
  }
  /// ... and when all have run: where the parameter part may come after all input parts, a slot before may still read
  /// what this one held for it.
  void after_backward(const bound_slots& slots, int m) const {
    if (!canary_) return;
    for (const bound& b : slots) canary_->after_parameter_part(context_, b.slot, m);
  }
  void after_update(const bound_slots& slots, std::size_t flat_bytes) {
    if (!observed_) return;
    for (const bound& b : slots) recorder_.after_update(context_, b, flat_bytes);
  }

  /// Runs a part of a slot on `together` micro-batches in turn, the first of them m: what each took in the mean.
  template <class Run>
  void time(const bound& b, timed part, const step_context& step, int m, Run&& run, int together = 1) {
    if (!watch_) return run();
    context_.finish();  // such a step waits for its device wherever it times one
    const auto begin = now_ns();
    run();
    context_.finish();
    if (step.samples(m + together - 1) == plan_.options.micro_batch_size)
      watch_->take(b.slot - first(), part, (now_ns() - begin) / together);
  }

 private:
  nonfinite_finder<Context> examine() const { return {context_, net_, stage_}; }
  int first() const { return plan_.cut().first[stage_]; }

  const Context& context_;
  const network& net_;
  const runtime_plan& plan_;
  int stage_;
  bool observed_ = false;  ///< by the observer: it notes, or a slot is watched
  activation_recorder<Context> recorder_;
  std::optional<canary<Context>> canary_;
  std::unique_ptr<layer_timer> watch_;
};

}  // namespace gpipe::detail
