#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/core/numbers/double_bits.hpp>
#include <gpipe/core/numbers/float_environment.hpp>
#include <gpipe/plan/memory/memory_kind.hpp>
#include <gpipe/plan/step_plan.hpp>
#include <gpipe/record/stage_report.hpp>
#include <gpipe/record/trace.hpp>
#include <gpipe/runtime/length_plan.hpp>
#include <gpipe/runtime/parameter_access.hpp>
#include <gpipe/runtime/preflight.hpp>
#include <gpipe/runtime/processes/rank_layout.hpp>
#include <gpipe/runtime/run_report.hpp>
#include <gpipe/runtime/worker/pass_runner.hpp>

namespace gpipe {

// assumes: one kind of device
/// Runs a plan with one worker thread per worker of the schedule and per replica. The first worker is the calling
/// thread; the others live as long as the executor. In a job, each process runs some of the workers, and processes
/// share no memory: every process makes the same calls, also calls that read, with the same batches in the same order,
/// and gets the same results. A process needs only the fields of a batch that its own layers read. Not thread-safe.
///
/// A training of several lengths has one plan per length. `net` and `plan` describe the longest; all plans run in its
/// memory. Each call runs the plan for the length of its batch.
///
///     run the program  |  reduce  |  barrier: all have arrived, loss and norm are finite  |  update  |  rest
///     `---------------------- may fail: nothing has changed yet ------------------------'  `- cannot -'
class executor {
 public:
  executor(const detail::device_functions& device, const network& net, const detail::kernel_row* kernels,
           step_plan plan, detail::optimizer_update rule, training_options options = {},
           std::vector<detail::length_plan> shorter = {});
  /// An executor in which a kernel does not return is never destroyed: see `executor_owner`.
  ~executor();
  executor(const executor&) = delete;
  executor& operator=(const executor&) = delete;

  // change: a non-finite step
  /// One step: forward, backward and update over the batch and all accumulated calls. `max_norm` is the largest norm of
  /// the mean gradient; 0: no limit. On failure throws `error` with the first cause; parameters, moments, state and the
  /// step count are unchanged.
  step_result train(const batch& data, double rate, double max_norm = 0);

  /// Forward and backward over a part of the next step's mini-batch. Sums gradients and weights, keeps the statistics
  /// of layers with state for the commit, and changes nothing else. Returns the result of the mini-batch so far. If the
  /// batch is invalid, nothing changes. If the call fails later, its gradients are already mixed with earlier ones:
  /// all accumulated gradients are dropped, and the error reports it.
  step_result accumulate(const batch& data);
  /// The number of accumulated calls that wait for the next step.
  int accumulated() const { return accumulated_; }
  void discard_accumulated();

  /// Forward only, without dropout. Throws `error` if the loss is not finite.
  step_result evaluate(const batch& data);

  /// Runs `call` with the moving averages in place of the parameters.
  template <class Call>
  auto with_averages(Call&& call) {
    usable();
    if (!plan_.options.average_weights)
      detail::throw_error({"average_weights is 0: there is no average of the weights"},
                          {"choose .average_weights = 0.999 in the options of the training"});
    struct exchanged {
      executor& owner;
      explicit exchanged(executor& run) : owner(run) { exchange(); }
      ~exchanged() {
        if (!owner.stuck()) exchange();
      }
      void exchange() const {
        owner.replicas().each_stage([](auto& stage) { stage.exchange_averages(); });
        owner.refresh();
        owner.passes_.gather_before_next();
      }
    } const scope(*this);
    return call();
  }

  /// Forward only, without dropout, up to the loss: copies the input of the loss to the rows of `output` from `first`
  /// on. A loss that makes its input, or layers that make columns of it, run `predict` for that. Fields that only the
  /// loss reads may be missing. The rows have the size of `predictions` for this batch.
  void predict(const batch& data, tensor_rows& output, int first);
  /// Rows for the input of the loss, with this number of samples, for the length that runs.
  tensor_rows predictions(int samples) const;

  /// Makes the plan of the batch's length the one that runs, until a batch has another. Throws `error` if there is
  /// none.
  const step_plan& choose(const batch& data);
  /// The plan that runs: of the last batch's length.
  const step_plan& plan_now() const { return lengths_.running().plan; }
  /// The plans of shorter lengths, the shortest first.
  const std::vector<detail::length_plan>& shorter() const { return shorter_; }

  /// A frozen layer's parameters and their moments do not change from the next call on, including tied uses in other
  /// layers. Their gradient is zero and is not part of the norm.
  void freeze(int layer, bool frozen);
  /// The same for one parameter, in this process only: every process must call it.
  void freeze_here(const detail::named_array& parameter, bool frozen);

  /// Starts or stops copying a layer's outputs, and their gradients if there are any, out of every call.
  void watch(int layer, bool watched);
  /// The rows of the last call, without samples if it failed. Null if the layer is not watched.
  const detail::watched_rows* watched(int layer) const { return usable(), watched_now().watched(layer); }

  const gpipe::digest& digest() const { return usable(), lengths_.longest().watched.digest(); }

  /// Times every layer in this number of steps over the batch. The steps are not applied: only the gradients change.
  measured_profile profile_layers(const batch& data, int steps);

  /// The time of each layer for a full micro-batch: medians of the newest times, of the length that ran last.
  measured_profile layer_profile() const;

  /// Whether a kernel has not returned within the deadline. From then on every call that needs the workers or their
  /// memory throws the same error.
  bool stuck() const noexcept { return passes_.stuck(); }

  const network& net() const { return net_; }
  const step_plan& plan() const { return plan_; }
  /// The group of each parameter.
  const detail::parameter_groups& groups() const { return groups_; }
  /// Steps taken; a step that failed does not count.
  std::uint64_t steps() const { return step_.step; }
  const detail::bound_stage& stage(int s, int replica = 0) const { return replicas().at(replica).stage(s); }

  /// Copies an array out of the training: a parameter, its gradient (a sum over the last step's samples), its optimizer
  /// state, or state of a layer. All replicas have the same values, but while accumulated calls wait for a step, only
  /// the first replica has the sums of the gradients.
  void read(const array_location& array, void* target, int replica = 0) const;
  /// Sets an array, and recomputes the buffers that are derived from parameters. Parameters are written to their moving
  /// average, too.
  void write(const array_location& array, const void* values);
  /// The same for all parameters and the state of all layers, in the order of `each_value`.
  void write_values(const std::byte* values);

  /// The parameters and the state that this process has, in the order of `each_value`, without other processes: a
  /// model of many stages need not fit into one process.
  void read_own_values(std::vector<std::byte>& target) const;
  void write_own_values(const std::byte* values);
  std::size_t own_value_bytes() const;

  /// If replicas keep shares, copies all parameters that other replicas have updated to this process. Every process
  /// calls it.
  GPIPE_COLD void gather() { usable(), passes_.gather(); }
  /// Whether this process has a layer's memory, in any replica.
  bool has_here(int layer) const { return parameters_.is_here(layer); }
  /// The replica that updates a layer, if replicas keep shares; else the first.
  int owner_of(int layer) const { return parameters_.owner_of(layer); }
  /// Like `read` and `write`, but in this process only: every process calls them for the arrays that it has, in any
  /// order. `restore` then recomputes the buffers that are derived from parameters.
  void read_here(const array_location& array, void* target) const;
  void write_here(const array_location& array, const void* values);
  /// Whether parameters, state and optimizer state still have the values that the constructor set.
  bool has_first_values() const { return first_values_; }
  /// Sets them to these values again, in this process only.
  void set_first_values();
  /// Continues from this number of steps and seed, with the parameters that have been written. Drops accumulated calls.
  void restore(std::uint64_t steps, std::uint64_t seed);
  std::uint64_t seed() const { return step_.seed; }
  const training_options& options() const { return options_; }
  /// The rank of the process that saves a layer.
  int rank_of(int layer) const { return ranks_.rank_of_stage(owner_of(layer), stage_of(layer)); }
  /// The rank of this process in its job.
  int rank() const { return options_.job != nullptr ? options_.job->rank() : 0; }
  /// The calls that all processes of the job make together.
  const detail::collective_calls& together() const { return calls(); }

  /// Addresses in the memory of the layer's stage, or of the stage that owns the layer's first parameter. The host may
  /// read them only if they are host memory.
  std::byte* parameters(int layer) const { return of_parameters(memory_kind::parameters, layer, 0); }
  std::byte* gradients(int layer) const { return of_parameters(memory_kind::gradients, layer, 0); }
  std::byte* moments(int layer, int i) const { return of_parameters(memory_kind::moments, layer, i); }
  std::byte* state(int layer) const { return usable(), parameters_.address({memory_kind::state, layer}, 0); }

  /// Each stage's times in steps, replica after replica, and each worker's events, since the last `reset_report`. If
  /// the plan only runs forward, every evaluation is a step.
  const std::vector<stage_report>& report() const;
  const std::vector<recorder>& trace() const;
  void reset_report() { usable(), report_.reset(); }
  void reset_trace() { usable(), report_.reset_events(); }

 private:
  // The plan, after all checks that come before the first allocation and the first thread.
  const step_plan& admitted() const;
  const detail::pass_runner& usable() const;
  const detail::replica_list& replicas() const { return usable().replicas(); }
  const detail::replica_list& replicas_now() const { return usable().replicas(lengths_.number()); }
  template <class Call>
  void each_stage(Call&& call) const {
    for (std::size_t k = 0; k < passes_.plans(); ++k) usable().replicas(k).each_stage(call);
  }
  template <class Call>
  void each_copy_of(int stage, Call&& call) const {
    for (std::size_t k = 0; k < passes_.plans(); ++k) usable().replicas(k).each_copy_of(stage, call);
  }
  const detail::collective_calls& calls() const { return usable().calls(); }
  int stage_of(int layer) const { return plan_.cut().stage_of(layer); }
  template <class Visit>
  void each_own_value(Visit&& visit) const {
    detail::each_value(net_, [&](const array_location& value) {
      if (has_here(value.layer_index)) visit(value);
    });
  }

  std::byte* of_parameters(memory_kind kind, int layer, int i) const;

  void time_layers(bool enabled);

  // The length that runs.
  const network& net_now() const { return lengths_.running().net; }
  detail::watched_activations& watched_now() { return lengths_.running().watched; }
  const detail::watched_activations& watched_now() const { return lengths_.running().watched; }
  detail::step_input& input() { return lengths_.running().input; }

  static step_plan with_largest_arena(step_plan longest, const std::vector<detail::length_plan>& shorter);
  // Recomputes all buffers that are derived from parameters, for the longest length.
  void refresh();

  void require_size(const tensor_rows& rows) const;

  // Runs the part of train and accumulate that may fail after the batch was checked.
  template <class Call>
  void attempt(Call&& call) {
    watched_now().open(step_);
    try {
      call();
    } catch (...) {
      rethrow_without_accumulated();
    }
    watched_now().close(step_, accumulated_, processes_);
  }
  // Called in a handler: gradients are summed in place, so the gradients of earlier calls are lost, too. The error
  // reports it.
  [[noreturn]] void rethrow_without_accumulated();

  const detail::device_functions& device_;
  const network& net_;
  std::vector<detail::length_plan> shorter_;
  step_plan plan_;  // of the longest length
  detail::optimizer_update rule_;
  training_options options_;
  detail::parameter_groups groups_;
  detail::rank_layout ranks_;
  detail::broadcast processes_;
  mutable detail::run_report report_;
  detail::step_context step_;
  detail::length_choice lengths_;
  detail::commit_decision decision_;
  int accumulated_ = 0;
  bool first_values_ = false;
  tensor_rows predicted_;     // while `predict` runs
  double checked_rate_ = -1;  // the largest rate for which an update is known to stay finite
  detail::pass_runner passes_;
  detail::parameter_access parameters_;
};

}  // namespace gpipe

#if !GPIPE_COMPILED
#include <gpipe/runtime/executor-inl.hpp>
#endif
