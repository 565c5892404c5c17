#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <gpipe/core/clock.hpp>
#include <gpipe/core/index.hpp>
#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/record/trace.hpp>
#include <gpipe/runtime/link/stage_io.hpp>
#include <gpipe/runtime/worker/action_timer.hpp>
#include <gpipe/runtime/worker/captured_step.hpp>
#include <gpipe/runtime/worker/failure.hpp>
#include <gpipe/runtime/worker/tied_parameters.hpp>
#include <gpipe/runtime/worker/watchdog.hpp>
#include <gpipe/runtime/worker/worker_context.hpp>

namespace gpipe::detail {

/// Runs a program. It knows the stages of its replica and the channels to others, but no schedule. Aligned, because the
/// values that it writes in every action must not share a cache line with another worker's.
///
/// A device may run the work of its stages later than it is enqueued, in the order of the program. The worker waits for
/// its devices twice in a step: before the commit, whose decision needs their results, and at the end.
template <class Device>
class alignas(alignment) worker final : private gradient_listener {
 public:
  using context = typename Device::context;

  /// `number` is the worker's in its replica; `waiter` is its number at the barrier and in the signals.
  GPIPE_COLD worker(const worker_context<Device>& shared, replica<Device>& own, int number, int waiter, recorder* trace)
      : context_(shared),
        replica_(&own),
        number_(number),
        waiter_(waiter),
        io_(shared.plan, own.channels()),
        ties_(shared.plan, own, shared.others.ties()),
        times_(own.step(), own.number(), number, reports_of(shared, own.number()), trace) {
    for (int s = 0; s < context_.plan.stages(); ++s)
      if (context_.plan.worker_of(s) == number) stages_.push_back(s);
  }

  /// One pass over a program; `clears`: sets gradients to zero first. Throws the cause of a failure, with its location.
  void run(const std::vector<instruction>& program, bool clears) {
    committed_ = summed_ = downloading_ = false;
    previous_ = nullptr;
    recorded_ = nullptr;
    waiting_since_ = -1;
    times_.open(program.size());
    // A step that is launched from a graph packs what it was recorded to pack, and a pass that failed may not have.
    if (!std::exchange(packed_is_known_, false) || step().captured)
      for (const int s : stages_) replica_->stage(s).forget_packed();
    if (step().captured) begin_captured(program);
    open(program, clears);
    std::size_t done = 0;
    if (step().captured) {
      for (; program[done].kind != action_kind::update; ++done) execute(program, done);
      end_captured();
    }
    for (; done < program.size(); ++done) execute(program, done);
    if (times_.on_device().on()) record_end();
    if (committed_) finish();
    else gather();
    times_.close();
    packed_is_known_ = !step().captured;
    if (step().captured) captured_is_valid_ = true;
  }

  /// Where a pass is, from any thread: the location of an error, if the worker has begun an instruction.
  GPIPE_COLD location position() const {
    const instruction* const i = running_.load(std::memory_order_acquire);
    return i == nullptr ? location{} : detail::location_of(*i, replica_->stage(i->stage), step());
  }
  /// What runs, from any thread: changes with every instruction and every layer.
  detail::activity activity() const noexcept {
    const instruction* const i = running_.load(std::memory_order_acquire);
    if (i == nullptr) return {};
    const auto& stage = replica_->stage(i->stage);
    const auto* const layer = stage.current();
    return {i, layer, stage.current_micro_batch(), context_.wake_signals.ticks(waiter_),
            context_.wake_signals.waits(waiter_)};
  }

 private:
  // Before the first instruction.
  void open(const std::vector<instruction>& program, bool clears) {
    context_.others.begin({.action = "begin"});  // throws if the job has lost a process, before anything is sent
    if (step().gathers) gather_parameters();
    enqueue([&] {
      ties_.update_values(number_);
      if (!clears) return;
      for (const instruction& i : program)
        if (i.kind == action_kind::reduce) stage(i).clear_gradients();
    });
    if (!program.empty()) times_.prepared(program.front().stage);
  }

  // Those that other replicas have updated.
  GPIPE_OUT_OF_LINE void gather_parameters() {
    for (const int s : stages_) {
      bound_stage<Device>& own = replica_->stage(s);
      order_after_previous(own);
      times_.waited(context_.sums->gather(replica_->number(), s, {s, -1, "gather"}));
      context_.wake_signals.progress(waiter_);
      own.refresh();
    }
    if (!ties_.any() || context_.plan.workers() == 1) return;
    // Other workers of the replica read them for tied uses.
    for (const int s : stages_) replica_->stage(s).context().finish();
    times_.waiting([&] { replica_->barrier().arrive(waiter_, {stages_.front(), -1, "gather"}); });
  }

  bool is_captured() const { return recorded_ != nullptr; }

  void execute(const std::vector<instruction>& program, std::size_t at) {
    const instruction& i = program[at];
    if (is_empty(i) && !runs_without_samples(i)) return;
    const bool continues = at + 1 < program.size() && joins(program[at + 1], i);
    begin();
    stage(i).begin(global_micro_batch(i));
    running_.store(&i, std::memory_order_release);
    try {
      if (!committed_) {
        if (context_.wake_signals.interrupted()) throw detail::interrupted{};  // a failure elsewhere: work no further
        context_.others.begin(wait_context_of(i));
        if (context_.before) context_.before({i.kind, i.stage, global_micro_batch(i), i.link});
      }
      perform(i, continues);
    } catch (...) {
      detail::rethrow_named(i, stage(i), step());
    }
    running_.store(nullptr, std::memory_order_relaxed);
    context_.wake_signals.progress(waiter_);
    times_.end(i, io_);
  }
  void begin() {
    io_.begin();
    times_.begin();
  }

  // The operations that follow, until `end_captured`, are recorded as graphs or launched from them.
  GPIPE_COLD void begin_captured(const std::vector<instruction>& program) {
    if constexpr (graph_device<Device>) {
      if (!captured_ || !std::exchange(captured_is_valid_, false)) {  // after a failure a graph may fail again
        std::vector<bound_stage<Device>*> stages;
        for (const int s : stages_) stages.push_back(&replica_->stage(s));
        captured_ = std::make_unique<captured_step>(std::move(stages));
      }
      if (captured_->matches(step())) captured_->repeat(step(), program);
      else captured_->record();
      recorded_ = captured_.get();
    }
  }
  void end_captured() {
    enqueue([this] { download(); });
    downloading_ = true;
    if constexpr (graph_device<Device>) {
      recorded_->end();
      recorded_->complete(step());
      recorded_ = nullptr;
    }
  }
  // Work of the worker's own stages, which may be in a graph.
  template <class Work>
  void enqueue(Work&& work) {
    if constexpr (graph_device<Device>)
      if (recorded_ != nullptr) return recorded_->run(work);
    work();
  }
  template <class Work>
  void enqueue_on(bound_stage<Device>& s, Work&& work) {
    enqueue([&] {
      order_after_previous(s);
      work();
    });
  }
  // Calls that order a stage and those of other workers are part of no graph.
  void end_graph() {
    if constexpr (graph_device<Device>)
      if (recorded_ != nullptr) recorded_->end();
  }
  struct outside {
    worker* of;
    const context& on;

    void mark(typename Device::marker& m) const { of->end_graph(), on.mark(m); }
    void await(typename Device::marker& m) const { of->end_graph(), on.await(m); }
  };

  const step_context& step() const { return replica_->step(); }
  bound_stage<Device>& stage(const instruction& i) { return replica_->stage(i.stage); }
  static std::span<stage_report> reports_of(const worker_context<Device>& shared, int replica) {
    const std::size_t stages = detail::index(shared.plan.stages());
    return std::span(shared.reports).subspan(detail::index(replica) * stages, stages);
  }
  /// Counted through all replicas.
  int global_micro_batch(const instruction& i) const {
    return i.micro_batch < 0 ? -1 : step().global_micro_batch(i.micro_batch);
  }
  wait_context wait_context_of(const instruction& i) const { return {i.stage, global_micro_batch(i), name_of(i.kind)}; }

  const context& device_context(const instruction& i) { return stage(i).context(); }

  // If the worker's stages have queues of their own, the work of one stage waits for that of the previous one.
  void order_after_previous(bound_stage<Device>& s) {
    if (previous_ == &s) return;
    if (previous_ != nullptr) {
      previous_->context().mark(previous_done_);
      s.context().await(previous_done_);
    }
    previous_ = &s;
  }

  // Outside of a graph: the partials of accumulated calls are not in the same place for each step.
  void update_state() {
    for (const int s : stages_) {
      if (!replica_->stage(s).statistics().has_state()) continue;
      replica_->stage(s).statistics().update_state(step());
      downloading_ = false;  // sums of squares may have changed
    }
  }
  // Brings the values for the call's decision to the host, and to all processes.
  GPIPE_OUT_OF_LINE void gather() {
    if (!downloading_) download();
    finish();
    if (!context_.others.joined()) return;
    times_.waiting([&] {
      context_.barrier.arrive(waiter_, {.action = "gather"});  // those of all workers here are complete
      if (waiter_ == 0) context_.others.exchange(context_.decision.gathered, step().commits());
    });
  }
  void download() {
    for (const int s : stages_) {
      const bound_stage<Device>& from = replica_->stage(s);
      if (step().trains()) from.download_squares(step().commits(), context_.decision.gathered.squares.data());
      if (step().predicts()) continue;
      for (const loss_location& loss : context_.decision.losses)
        if (context_.plan.cut().stage_of(loss.layer_index) == s)
          from.statistics().download(loss.layer_index, step(), context_.decision.gathered.partials.data() + loss.first);
    }
  }
  GPIPE_OUT_OF_LINE void finish() {
    for (const int s : stages_) {
      try {
        if (!committed_) context_.others.wait(s, {s, -1, "finish"});
        replica_->stage(s).context().finish();
      } catch (const error&) {
        detail::rethrow_named({committed_ ? action_kind::update : action_kind::reduce, s}, replica_->stage(s), step());
      }
    }
  }

  // A replica without micro-batches takes part in sums of gradients that leave their stages while others run backward.
  bool runs_without_samples(const instruction& i) const {
    return context_.sums != nullptr && step().trains() && step().filled() == 0 && i.micro_batch == 0 &&
           (i.kind == action_kind::backward || i.kind == action_kind::backward_parameters) &&
           context_.plan.requirements(i.stage).gradients_leave;
  }
  bool is_empty(const instruction& i) const { return i.micro_batch >= 0 && step().samples(i.micro_batch) == 0; }

  // While a stage's last backward runs, the gradients that are complete are already reduced, and timed as such.
  gradient_listener* listener(const instruction& i) {
    return context_.sums != nullptr && i.micro_batch + 1 == step().filled() ? this : nullptr;
  }
  void complete(int layer) override {
    const instruction& around = *running_.load(std::memory_order_relaxed);  // the backward that this interrupts
    const instruction reduction{action_kind::reduce, around.stage, -1, -1};
    const auto began = now_ns();
    const auto moved = context_.sums->begin(replica_->number(), around.stage, layer, wait_context_of(reduction));
    if (!moved) return;
    times_.end(around, io_, began);
    begin();
    times_.waited(moved.waited);
    times_.end(reduction, io_);
    begin();  // the backward goes on
  }

  // Whether `next` is the parameter part of the following micro-batch, which one kernel call may compute together with
  // i.
  bool joins(const instruction& next, const instruction& i) const {
    return i.kind == action_kind::backward_parameters && next.kind == i.kind && next.stage == i.stage &&
           next.micro_batch == i.micro_batch + 1 && step().samples(next.micro_batch) > 0 &&
           (waiting_since_ < 0 || next.micro_batch - waiting_since_ < max_gradient_group);
  }

  // `continues`: the next instruction joins this one.
  void perform(const instruction& i, bool continues) {
    const int m = i.micro_batch;
    bound_stage<Device>& s = stage(i);
    const outside others{this, s.context()};
    if (!is_captured()) order_after_previous(s);
    if (is_empty(i)) return complete(context_.plan.first[index(i.stage)]);
    times_.on_device().begin(device_context(i));
    switch (i.kind) {
      case action_kind::receive_activation:
      case action_kind::receive_gradient:
        io_.receive(others, i, wait_context_of(i));
        break;
      case action_kind::send_activation:
      case action_kind::send_gradient:
        io_.send(others, step(), i);
        break;
      case action_kind::forward:
        io_.acquire_activations(others, i, wait_context_of(i));  // layers write straight into them
        enqueue_on(s, [&] {
          if constexpr (graph_device<Device>)
            if (recorded_ != nullptr) recorded_->forward();
          s.forward(step(), m);
          if (s.has_copies()) times_.copying([&] { s.pass_on(step(), m); });
        });
        if (!step().trains()) io_.release(others, i, false);
        break;
      case action_kind::recompute:
        enqueue_on(s, [&] { s.recompute(step(), m); });
        break;
      case action_kind::backward_input:
        io_.acquire_gradients(others, i, wait_context_of(i));
        enqueue_on(s, [&] { s.backward_input(step(), m); });
        break;
      case action_kind::backward_parameters:
        if (waiting_since_ < 0) waiting_since_ = m;
        if (continues) break;
        enqueue_on(s, [&] {
          s.backward_parameters(
              step(), waiting_since_, m, [this] { context_.wake_signals.progress(waiter_); }, listener(i));
        });
        for (; waiting_since_ <= m; ++waiting_since_) io_.release(others, {i.kind, i.stage, waiting_since_}, true);
        waiting_since_ = -1;
        break;
      case action_kind::backward:
        io_.acquire_gradients(others, i, wait_context_of(i));
        enqueue_on(s, [&] { s.backward(step(), m, listener(i)); });
        io_.release(others, i, true);
        break;
      case action_kind::reduce:
        reduce(i);
        break;
      case action_kind::update:
        update(i);
        break;
      case action_kind::idle:
        break;
    }
    times_.on_device().end(device_context(i), i);
  }
  void record_end() {
    for (const int s : stages_) {
      order_after_previous(replica_->stage(s));
      times_.on_device().over(replica_->stage(s).context(), s);
    }
  }

  GPIPE_OUT_OF_LINE void reduce(const instruction& i) {
    const bool commits = step().commits();
    if (commits && ties_.any()) {  // only in a commit are the gradients of all uses added to the owner's
      if (context_.plan.workers() == 1) {
        enqueue_on(stage(i), [&] { add_tied_gradients(i); });
      } else {
        end_graph();
        add_tied_gradients(i);
      }
    }
    if (context_.sums != nullptr)
      times_.waited(context_.sums->sum(replica_->number(), i.stage, wait_context_of(i), commits));
    if (!stage(i).reported(commits).empty()) enqueue_on(stage(i), [&] { stage(i).sum_squares(commits); });
  }
  GPIPE_OUT_OF_LINE void add_tied_gradients(const instruction& i) {
    if (!std::exchange(summed_, true)) {
      for (const int s : stages_) replica_->stage(s).context().mark(replica_->stage(s).done());
      times_.waiting([&] { replica_->barrier().arrive(waiter_, wait_context_of(i)); });
      ties_.send_gradients(number_);
    }
    ties_.add_gradients(i.stage, wait_context_of(i), times_);
  }

  GPIPE_OUT_OF_LINE void update(const instruction& i) {
    if (!step().commits()) return;
    const commit_result& result = context_.decision.result;
    if (!committed_) {
      update_state();
      gather();
      const auto arrived = now_ns();
      context_.barrier.arrive(waiter_, wait_context_of(i), [this]() noexcept { decide(); });
      // The time after the decision is the update's.
      times_.waited((std::max)(std::int64_t{0}, result.decided_ns - arrived));
      times_.on_device().begin(device_context(i));
    }
    committed_ = true;
    if (!result.holds || !step().applies()) return;
    bound_stage<Device>& s = stage(i);
    const update_terms now{static_cast<std::int64_t>(step().step) + 1, context_.decision.terms.rate, result.scale};
    for (const update_range& range : s.ranges()) context_.rule(s.context(), context_.net.type, range, now);
    if (context_.average_share > 0) s.move_averages(context_.average_share);
    s.statistics().commit();
    if (!s.is_shared_out()) s.refresh();  // else when they are gathered
    if (replica_->number() == 0 || s.is_shared_out()) s.updated();
  }

  void decide() noexcept {
    context_.decision.result.decided_ns = now_ns();
    context_.sum_partials();
    context_.decision.decide();
  }

  worker_context<Device> context_;
  replica<Device>* replica_;
  int number_, waiter_;
  detail::stage_io<Device> io_;
  detail::tied_parameters<Device> ties_;
  detail::action_timer<Device> times_;
  std::vector<int> stages_;                  ///< the worker's
  bound_stage<Device>* previous_ = nullptr;  ///< the stage whose work was enqueued last
  [[no_unique_address]] typename Device::marker previous_done_{};
  int waiting_since_ = -1;    ///< the first micro-batch whose parameter part waits for the next one's
  bool summed_ = false;       ///< the gradients of all stages are complete; used with ties only
  bool downloading_ = false;  ///< the downloads for the decision are enqueued
  bool committed_ = false;
  bool packed_is_known_ = false;                      ///< the last pass succeeded, and not from a graph
  bool captured_is_valid_ = false;                    ///< the last pass from the graph succeeded
  std::atomic<const instruction*> running_{nullptr};  ///< null: none yet, or between two
  struct nothing {};
  using captured_step = typename std::conditional<graph_device<Device>, detail::captured_step<Device>, nothing>::type;
  std::unique_ptr<captured_step> captured_;
  captured_step* recorded_ = nullptr;  ///< while its graphs are recorded or launched
};

}  // namespace gpipe::detail
