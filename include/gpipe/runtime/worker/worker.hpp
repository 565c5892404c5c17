#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/plan/step_plan.hpp>
#include <gpipe/record/stage_report.hpp>
#include <gpipe/record/trace.hpp>
#include <gpipe/runtime/binding/optimizer_update.hpp>
#include <gpipe/runtime/link/link_channels.hpp>
#include <gpipe/runtime/processes/other_processes.hpp>
#include <gpipe/runtime/replicas/all_reduce.hpp>
#include <gpipe/runtime/step/step_context.hpp>
#include <gpipe/runtime/worker/action_timer.hpp>
#include <gpipe/runtime/worker/captured_step.hpp>
#include <gpipe/runtime/worker/failure.hpp>
#include <gpipe/runtime/worker/tied_parameters.hpp>
#include <gpipe/transport/in_process/worker_signals.hpp>

namespace gpipe::detail {

/// The objects that the workers of an executor share.
struct worker_context {
  const device_functions& device;
  const network& net;
  const step_plan& plan;
  const optimizer_update& rule;
  all_reduce* sums;  ///< over replicas; null: there is one replica
  worker_signals& wake_signals;
  gpipe::detail::barrier& barrier;  ///< of all workers of this process
  const step_context& step;         ///< of all replicas
  commit_decision& decision;
  std::vector<stage_report>& reports;  ///< [replica][stage]
  // change: a hook between backward and update
  const std::function<void(const instruction&)>& before;  ///< called before each instruction until the commit
  double average_share;  ///< the share of new weights in their moving average; 0: there is no average
  other_processes& processes;

  /// Sums the partials of the losses over the call's micro-batches and over the accumulated calls before it.
  void sum_partials() const noexcept { decision.sum(step); }
};

// assumes: one kind of device
/// Runs the instructions of a program in order, on its stages of a replica. Aligned, because the values that it writes
/// in every action must not share a cache line with the values of another worker.
///
/// A device may run the work of its stages later than it is enqueued, in the order of the program. The worker waits for
/// its devices twice in a step: before the commit, whose decision needs their results, and at the end.
class alignas(alignment) worker final : private gradient_listener {
 public:
  /// `number` is the worker's number in its replica, and `waiter` its number at the barrier and in the signals.
  worker(const worker_context& shared, replica& own_replica, int number, int waiter, recorder* trace);

  /// Runs a program once; `clears`: sets gradients to zero first. Throws the cause of a failure, with its location.
  void run(const std::vector<instruction>& program, bool clears);

  /// The position in a pass, as the location of an error, if the worker has begun an instruction. May be called from
  /// any thread.
  location position() const;
  /// The current activity, which changes with every instruction and every layer. May be called from any thread.
  detail::activity activity() const noexcept;

 private:
  // Called before the first instruction: updates tied parameters, and clears gradients if `clears`.
  void open(const std::vector<instruction>& program, bool clears);

  // assumes: replicas keep all parameters
  // Gathers the parameters that other replicas have updated.
  void gather_parameters();

  bool is_captured() const { return recorded_ != nullptr; }

  // A plain device, such as the host, executes at once, and has neither moments (timestamps) nor graphs.
  static bool is_plain(const device_functions& device) {
    return device.is_synchronous() && !device.has_moments() && !device.has_graphs();
  }
  // Runs instruction k, in steps that are the same for every kind: times, signals, the hook `before`, and errors.
  template <bool Plain>
  void execute(const std::vector<instruction>& program, std::size_t k) {
    const instruction& action = program[k];
    if (is_empty(action) && !runs_without_samples(action)) return;
    const bool continues = k + 1 < program.size() && joins(program[k + 1], action);
    begin();
    stage(action).begin(global_micro_batch(action));
    running_.store(&action, std::memory_order_release);
    try {
      if (!committed_) {
        if (context_.wake_signals.interrupted()) throw detail::interrupted{};  // another worker has failed
        context_.processes.begin(wait_context_of(action));
        if (context_.before) context_.before({action.kind, action.stage, global_micro_batch(action), action.link});
      }
      perform<Plain>(action, continues);
    } catch (...) {
      detail::rethrow_named(action, stage(action), step());
    }
    running_.store(nullptr, std::memory_order_relaxed);
    context_.wake_signals.progress(waiter_);
    times_.end(action, io_);
  }
  void begin() { io_.begin(), times_.begin(); }

  // The operations that follow, until `end_captured`, are recorded as graphs or launched from them.
  void begin_captured(const std::vector<instruction>& program);
  void end_captured();
  // Enqueues work on the worker's own stages, in a graph if the step is captured.
  template <class Work>
  void enqueue(Work&& work) {
    if (recorded_ == nullptr) return work();
    recorded_->run(work);
  }
  template <bool Plain, class Work>
  void enqueue_on(bound_stage& current_stage, Work&& work) {
    if constexpr (Plain) work();
    else
      enqueue([&] {
        order_after_previous(current_stage);
        work();
      });
  }
  // Called before a stage waits for, or signals, stages of other workers: these calls are in no graph.
  void end_graph() {
    if (recorded_ != nullptr) recorded_->end();
  }
  struct ungraphed_context {
    worker* caller;
    const device_context& context;

    GPIPE_OUT_OF_LINE void mark(device_marker& marker) const { caller->end_graph(), context.mark(marker); }
    GPIPE_OUT_OF_LINE void await(device_marker& marker) const { caller->end_graph(), context.await(marker); }
  };
  // The same for a plain device, whose work is complete when a call returns.
  struct empty_context {
    empty_context(worker*, const device_context&) {}

    void mark(device_marker&) const {}
    void await(device_marker&) const {}
  };

  const step_context& step() const { return replica_->step(); }
  bound_stage& stage(const instruction& action) { return replica_->stage(action.stage); }
  static std::span<stage_report> reports_of(const worker_context& shared, int replica) {
    const std::size_t stages = detail::index(shared.plan.stages());
    return std::span(shared.reports).subspan(detail::index(replica) * stages, stages);
  }
  /// The number of the action's micro-batch in the step of all replicas; -1: the action has none.
  int global_micro_batch(const instruction& action) const {
    return action.micro_batch < 0 ? -1 : step().global_micro_batch(action.micro_batch);
  }
  wait_context wait_context_of(const instruction& action) const {
    return {action.stage, global_micro_batch(action), name_of(action.kind)};
  }

  const device_context& context_of(const instruction& action) { return stage(action).context(); }

  // If the worker's stages have separate queues, the work of one stage waits for the work of the previous one.
  void order_after_previous(bound_stage& current_stage) {
    if (previous_ == &current_stage) return;
    if (previous_ != nullptr) {
      previous_->context().mark(previous_done_);
      current_stage.context().await(previous_done_);
    }
    previous_ = &current_stage;
  }

  // Outside of a graph: the partials of accumulated calls are not in the same place for each step.
  void update_state();
  // `download` copies the values for the decision to the host; `gather` also waits for them and sends them to all
  // processes.
  void gather();
  void download();
  void finish();

  // A replica without micro-batches takes part in sums of gradients that leave their stages while others run backward.
  bool runs_without_samples(const instruction& action) const {
    return context_.sums != nullptr && step().trains() && step().filled() == 0 && action.micro_batch == 0 &&
           (action.kind == action_kind::backward || action.kind == action_kind::backward_parameters) &&
           context_.plan.requirements(action.stage).gradients_leave;
  }
  bool is_empty(const instruction& action) const {
    return action.micro_batch >= 0 && step().samples(action.micro_batch) == 0;
  }

  // The last backward of a stage calls `complete` for each layer, so that gradients are reduced while it runs.
  gradient_listener* listener(const instruction& action) {
    return context_.sums != nullptr && action.micro_batch + 1 == step().filled() ? this : nullptr;
  }
  void complete(int layer) override;

  // Whether `next` computes the same parameters' gradients for the next micro-batch, so that one kernel call may
  // compute both.
  bool joins(const instruction& next, const instruction& action) const {
    return action.kind == action_kind::backward_parameters && next.kind == action.kind && next.stage == action.stage &&
           next.micro_batch == action.micro_batch + 1 && step().samples(next.micro_batch) > 0 &&
           (waiting_since_ < 0 || next.micro_batch - waiting_since_ < max_gradient_group);
  }

  // `continues`: the next instruction joins this one.
  template <bool Plain>
  void perform(const instruction& action, bool continues) {
    const int m = action.micro_batch;
    bound_stage& current_stage = stage(action);
    const std::conditional_t<Plain, empty_context, ungraphed_context> device{this, current_stage.context()};
    if (!Plain && !is_captured()) order_after_previous(current_stage);
    if (is_empty(action)) return complete(context_.plan.first[index(action.stage)]);
    if (!Plain && times_.on_device().on()) times_.on_device().begin(context_of(action));
    // change: an action
    switch (action.kind) {
      case action_kind::receive_activation:
      case action_kind::receive_gradient:
        io_.receive(device, action, wait_context_of(action));
        break;
      case action_kind::send_activation:
      case action_kind::send_gradient:
        io_.send(device, step(), action);
        break;
      case action_kind::forward:
        io_.acquire_activations(device, action, wait_context_of(action));  // layers write straight into them
        enqueue_on<Plain>(current_stage, [&] {
          if (!Plain && recorded_ != nullptr) recorded_->forward();
          current_stage.forward(step(), m);
          if (current_stage.has_copies()) times_.copying([&] { current_stage.pass_on(step(), m); });
        });
        if (!step().trains()) io_.release(device, action, false);
        break;
      case action_kind::recompute:
        enqueue_on<Plain>(current_stage, [&] { current_stage.recompute(step(), m); });
        break;
      case action_kind::backward_input:
        io_.acquire_gradients(device, action, wait_context_of(action));
        enqueue_on<Plain>(current_stage, [&] { current_stage.backward_input(step(), m); });
        break;
      case action_kind::backward_parameters:
        if (waiting_since_ < 0) waiting_since_ = m;
        if (continues) break;
        enqueue_on<Plain>(current_stage, [&] {
          current_stage.backward_parameters(
              step(), waiting_since_, m, [this] { context_.wake_signals.progress(waiter_); }, listener(action));
        });
        for (; waiting_since_ <= m; ++waiting_since_)
          io_.release(device, {action.kind, action.stage, waiting_since_}, true);
        waiting_since_ = -1;
        break;
      case action_kind::backward:
        io_.acquire_gradients(device, action, wait_context_of(action));
        enqueue_on<Plain>(current_stage, [&] { current_stage.backward(step(), m, listener(action)); });
        io_.release(device, action, true);
        break;
      case action_kind::reduce:
        reduce(action);
        break;
      case action_kind::update:
        update(action);
        break;
      case action_kind::idle:
        break;
    }
    if (!Plain && times_.on_device().on()) times_.on_device().end(context_of(action), action);
  }
  void record_end();

  // change: a hook between backward and update
  void reduce(const instruction& action);
  void add_tied_gradients(const instruction& action);

  // change: a non-finite step
  void update(const instruction& action);

  void decide() noexcept;

  worker_context context_;
  bool plain_;  ///< see `execute`
  replica* replica_;
  int number_, waiter_;
  detail::stage_io io_;
  detail::tied_parameters ties_;
  detail::action_timer times_;
  std::vector<int> stages_;          ///< the numbers of the worker's stages
  bound_stage* previous_ = nullptr;  ///< the stage whose work was enqueued last
  device_marker previous_done_;
  int waiting_since_ = -1;    ///< the first micro-batch of an open group of `backward_parameters`; -1: none
  bool summed_ = false;       ///< the gradients of all stages are complete; used with ties only
  bool downloading_ = false;  ///< the downloads for the decision are enqueued
  bool committed_ = false;
  bool packed_is_known_ = false;                      ///< the last pass succeeded, and was not launched from a graph
  bool captured_is_valid_ = false;                    ///< the last pass from the graph succeeded
  std::atomic<const instruction*> running_{nullptr};  ///< null: before the first instruction, or between two
  std::unique_ptr<captured_step> captured_;
  captured_step* recorded_ = nullptr;  ///< `captured_` while its graphs are recorded or launched; else null
};

}  // namespace gpipe::detail

#if !GPIPE_COMPILED
#include <gpipe/runtime/worker/worker-inl.hpp>
#endif
