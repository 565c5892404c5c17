#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gpipe/device/host/host.hpp>
#include <gpipe/runtime/executor.hpp>
#include <gpipe/train/dataset.hpp>
#include <gpipe/train/named_arrays.hpp>
#include <gpipe/core/descriptions/rate.hpp>
#include <gpipe/runtime/step/training_options.hpp>

namespace gpipe {

namespace broken {

template <class Model, bool Holds>
struct model_ends_in_a_loss {
  static_assert(Holds, "gpipe: a model that is trained ends in a loss: a layer with the partial \"loss\", such as "
                       "softmax_cross_entropy");
};

}  // namespace broken

/// Trains a model by a plan: `trainer training{plan{}, adam{.learning_rate = 1e-3}};`, or, with choices made at run
/// time, `trainer<net, adam> training{plan_options{.stages = 4}, adam{}};`. A trainer of `both_precisions<net>` leaves the
/// precision to be chosen so, too. Not for two callers at once.
template <class Model, class Optimizer, class Device = host_device>
class trainer {
  using context = typename Device::context;
  using model = typename detail::unwrapped<Model>::model;
  static_assert(sizeof(broken::model_ends_in_a_loss<model, detail::mistaken_model<model> ||
                                                            network_of<model>.loss_slot() >= 0>) > 0);

 public:
  using step_hook = std::function<void(const step_result&, std::uint64_t steps)>;

  GPIPE_COLD explicit trainer(const plan_options& options, Optimizer optimizer = {}, training_options how = {})
      : trainer(compiled_in(options.precision), options, optimizer, how) {}
  template <class Plan>
    requires requires { Plan::options; }
  explicit trainer(Plan, Optimizer optimizer = {}, training_options how = {})
      : trainer(Plan::options, std::move(optimizer), cut_by<Plan>(std::move(how))) {}

  /// One step over a batch of 1 to R x M x B samples, and at least one for each replica: forward, backward, update; at
  /// the learning rate that the schedule has for it, or at `rate`. Throws `error` and leaves parameters, moments, state
  /// and step count as they were.
  step_result step(const batch& data) { return step(data, rate()); }
  step_result step(const batch& data, double rate) {
    const step_result found = executor_.train(data, rate, clip_);
    for (std::size_t i = 0; i < hooks_.size(); ++i) (*hooks_[i])(found, executor_.steps());
    return found;
  }

  /// Forward and backward over a part of the next step's mini-batch, as many times as it has such parts: the next
  /// `step` adds its own and divides by the weight of all. Tells what the mini-batch has so far, as that step's outcome
  /// tells of all of it. Dropout sees one mini-batch: a sample's position counts on from call to call. What layers
  /// average, as batch_norm does, moves at the step, by all samples of the mini-batch.
  ///
  /// Throws `error`. If the batch is refused, nothing has changed. If the call, or the step, fails later, all that was
  /// accumulated is dropped, and the error says so: gradients are summed in place, and no copy is kept.
  step_result accumulate(const batch& data) { return executor_.accumulate(data); }
  /// Calls that wait for the next step; and drops them.
  int accumulated() const { return executor_.accumulated(); }
  void discard_accumulated() { executor_.discard_accumulated(); }

  /// Calls `hook(step_result, steps)` after every step that was taken, `steps` counting it. The hook may read and evaluate,
  /// set parameters, and add hooks; what it throws reaches who called `step`, and the step stands.
  GPIPE_COLD void on_step(step_hook hook) {
    hooks_.push_back(std::make_unique<step_hook>(std::move(hook)));
  }

  /// What each layer takes for a micro-batch, for `plan_options{.profile = costs.view()}`: medians over so many steps
  /// that change nothing but the gradients. The batch has M x B samples.
  measured_profile profile_layers(const batch& data, int steps = 10) { return executor_.profile_layers(data, steps); }
  /// The same over the steps taken, newest first, of a training with `slot_times`.
  measured_profile layer_profile() const { return executor_.layer_profile(); }

  /// The learning rate of the next step.
  double rate() const { return optimizer_.learning_rate * rate_(executor_.steps()); }

  /// Freezes a slot, or the slots [first, last): their parameters and moments do not change, their gradients are zero,
  /// and cost nothing, and count in no norm. Holds from the next call on.
  void freeze(int slot) { freeze(slot, slot + 1); }
  void freeze(int first, int last) { freeze(first, last, true); }
  void unfreeze(int slot) { unfreeze(slot, slot + 1); }
  void unfreeze(int first, int last) { freeze(first, last, false); }

  /// Forward only, without dropout: mean loss and accuracy of a batch, or of a whole dataset.
  step_result evaluate(const batch& data) { return executor_.evaluate(data); }
  GPIPE_COLD step_result evaluate(const dataset& data) {
    step_result all;
    for (const batch& part : data.batches(plan().max_batch())) {
      step_result found = evaluate(part);
      all.loss += found.loss * found.weight;
      all.weight += found.weight;
      all.correct += found.correct;
      all.samples += found.samples;
      detail::result_source::of(all) = detail::result_source::of(found);
      for (int p = 0; p < max_metrics; ++p) all.sums[p] += found.sums[p];
    }
    if (!(all.weight > 0))
      detail::throw_error({"the weights of the dataset's samples sum to nothing"}, {"give at least one a positive weight"});
    all.loss /= all.weight;
    return all;
  }

  /// What enters the loss, such as a classifier's logits, a row a sample in the order of the data: of a batch, or of a
  /// dataset of any length. Runs forward, without dropout, up to the loss: its labels may be missing. If the loss reads
  /// several tensors, the rows hold them all.
  GPIPE_COLD tensor_rows predict(const batch& data) {
    tensor_rows rows = executor_.predictions(std::clamp(data.samples(), 0, plan().max_batch()));
    executor_.predict(data, rows, 0);
    return rows;
  }
  GPIPE_COLD tensor_rows predict(const dataset& data) {
    tensor_rows rows = executor_.predictions(data.samples());
    int first = 0;
    for (const batch& part : data.batches(plan().max_batch())) {
      executor_.predict(part, rows, first);
      first += part.samples();
    }
    return rows;
  }

  /// Copies what a slot writes, and the gradients of that, out of every step from now on; `activation` and
  /// `activation_gradient` have the rows of the last call of `step` or `accumulate`, none if it failed. A gradient is
  /// that of the sum over samples. Memory is taken here, for M x B samples.
  void watch(int slot) { executor_.watch(checked(slot), true); }
  void unwatch(int slot) { executor_.watch(checked(slot), false); }
  const tensor_rows& activation(int slot) const { return watched(slot).outputs; }
  const tensor_rows& activation_gradient(int slot) const { return watched(slot).gradients; }

  /// Hashes of all that was computed in the first `digest_calls` calls: see `first_difference`.
  const gpipe::digest& digest() const { return executor_.digest(); }

  /// A copy of a parameter, of its gradient in the last step (a sum over samples), or of the optimizer's `moment`-th
  /// array for it: of the layer at a slot, by the layer's name for it, such as "weight".
  template <element T = float>
  std::vector<T> parameter(int slot, std::string_view name) const {
    return arrays_.template read<T>(memory_kind::parameters, slot, name);
  }
  template <element T = float>
  std::vector<T> gradient(int slot, std::string_view name) const {
    return arrays_.template read<T>(memory_kind::gradients, slot, name);
  }
  template <element T = float>
  std::vector<T> moment(int slot, std::string_view name, int moment) const {
    if (moment < 0 || moment >= Optimizer::moments)
      detail::throw_error({"the optimizer has no moment ", moment},
                     {"it keeps ", Optimizer::moments, " arrays, counted from 0"});
    return arrays_.template read<T>(memory_kind::moments, slot, name, moment);
  }
  /// A copy of what a layer has beside its parameters, such as the moving "mean" of batch_norm.
  template <element T = float>
  std::vector<T> state(int slot, std::string_view name) const {
    return arrays_.template read<T>(memory_kind::state, slot, name);
  }
  /// Gives a parameter, or a layer's state, new values.
  template <element T = float>
  void set_parameter(int slot, std::string_view name, std::span<const T> values) {
    arrays_.write(memory_kind::parameters, slot, name, values);
  }
  template <element T = float>
  void set_state(int slot, std::string_view name, std::span<const T> values) {
    arrays_.write(memory_kind::state, slot, name, values);
  }

  /// A hash of all parameters' bits, in model order: the same for every cut, and of every replica.
  std::uint64_t parameter_hash(int replica = 0) const { return arrays_.parameter_hash(replica); }

  /// What runs: its cut, costs and memory.
  const runtime_plan& plan() const { return executor_.plan(); }
  /// Of a step.
  int min_batch() const { return plan().min_batch(); }
  /// Steps taken; a step that failed does not count.
  std::uint64_t steps() const { return executor_.steps(); }
  /// A line a stage, of replica after replica: its times in all steps since the last `reset_report`. For `write_report`.
  const std::vector<stage_report>& report() const { return executor_.report(); }
  /// What each worker did since the last `reset_report` or `reset_trace`, as far as there was room for `trace_events`.
  const std::vector<recorder>& trace() const { return executor_.trace(); }
  void reset_report() { executor_.reset_report(); }
  void reset_trace() { executor_.reset_trace(); }
  /// Whoever runs the plan, for what a trainer does not pass on.
  const gpipe::executor<Device>& executor() const { return executor_; }

 private:
  struct compiled {
    const network& net;
    const kernel_row<context>* kernels;
  };
  static compiled compiled_in(precision wanted) {
    if constexpr (detail::unwrapped<Model>::both)
      if (wanted == precision::bf16) return {network_of<in_bf16<model>>, kernels_of<in_bf16<model>, context>};
    return {network_of<model>, kernels_of<model, context>};
  }
  GPIPE_COLD trainer(const compiled& from, const plan_options& options, const Optimizer& optimizer,
                     const training_options& how)
      : optimizer_(optimizer),
        rate_(how.learning_rate_schedule),
        clip_(how.max_grad_norm),
        executor_(from.net, from.kernels, make_plan(from.net, completed(options, how), how.cut),
                  optimizer_update<context>(optimizer), how.run()) {}

  template <class Plan>
  static training_options cut_by(training_options how) {
    if (how.cut.empty()) how.cut.assign(Plan::cut().first + 1, Plan::cut().first + Plan::S);
    return how;
  }
  static plan_options completed(plan_options options, const training_options& how) {
    options.optimizer_moments = Optimizer::moments;
    if (how.job != nullptr) {
      options.separate_memory = true;
      const int ranks = how.job->ranks() / (std::max)(1, options.replicas);  // of each replica
      if (options.workers == 0 && ranks < options.max_workers()) options.workers = ranks;
    }
    return options;
  }

  int checked(int slot) const { return detail::known_slot(executor_.net(), slot); }
  GPIPE_COLD void freeze(int first, int last, bool frozen) {
    if (last < first)
      detail::throw_error({"the slots [", first, ", ", last, ") end before they begin"}, {"give the first before the last"});
    if (last > first) checked(first), checked(last - 1);
    for (int l = first; l < last; ++l) executor_.freeze(l, frozen);
  }
  GPIPE_COLD const detail::watched_rows& watched(int slot) const {
    if (const auto* rows = executor_.watched(checked(slot))) return *rows;
    detail::throw_error({"nobody watches the slot"}, {"call watch(", slot, ") before the step"},
                   detail::place_of(executor_.net(), slot));
  }

  Optimizer optimizer_;
  rate_schedule rate_;
  double clip_;
  std::vector<std::unique_ptr<step_hook>> hooks_;  // they stay where they are when one adds another
  gpipe::executor<Device> executor_;
  detail::named_arrays<Device> arrays_{executor_};
};

template <class Plan, class Optimizer>
trainer(Plan, Optimizer) -> trainer<typename Plan::model, Optimizer>;
template <class Plan, class Optimizer>
trainer(Plan, Optimizer, training_options) -> trainer<typename Plan::model, Optimizer>;

}  // namespace gpipe
