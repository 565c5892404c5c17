#pragma once

#include <gpipe/core/clock.hpp>
#include <gpipe/core/config.hpp>
#include <gpipe/runtime/worker/worker.hpp>

namespace gpipe::detail {

GPIPE_INLINE GPIPE_COLD worker::worker(const worker_context& shared, replica& own_replica, int number, int waiter,
                                       recorder* trace)
    : context_(shared),
      plain_(is_plain(shared.device)),
      replica_(&own_replica),
      number_(number),
      waiter_(waiter),
      io_(shared.plan, own_replica.channels()),
      ties_(shared.plan, own_replica, shared.processes.ties()),
      times_(own_replica.step(), own_replica.number(), number, reports_of(shared, own_replica.number()), trace,
             shared.device),
      previous_done_(shared.device) {
  for (int s = 0; s < context_.plan.stages(); ++s)
    if (context_.plan.worker_of(s) == number) stages_.push_back(s);
}

GPIPE_INLINE void worker::run(const std::vector<instruction>& program, bool clears) {
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
    for (; program[done].kind != action_kind::update; ++done) execute<false>(program, done);
    end_captured();
  }
  if (plain_)
    for (; done < program.size(); ++done) execute<true>(program, done);
  else
    for (; done < program.size(); ++done) execute<false>(program, done);
  if (times_.on_device().on()) record_end();
  if (committed_) finish();
  else gather();
  times_.close();
  packed_is_known_ = !step().captured;
  if (step().captured) captured_is_valid_ = true;
}

GPIPE_INLINE GPIPE_COLD location worker::position() const {
  const instruction* const running = running_.load(std::memory_order_acquire);
  return running == nullptr ? location{} : detail::location_of(*running, replica_->stage(running->stage), step());
}

GPIPE_INLINE detail::activity worker::activity() const noexcept {
  const instruction* const running = running_.load(std::memory_order_acquire);
  if (running == nullptr) return {};
  const auto& stage = replica_->stage(running->stage);
  const auto* const layer = stage.current();
  return {running, layer, stage.current_micro_batch(), context_.wake_signals.ticks(waiter_),
          context_.wake_signals.waits(waiter_)};
}

GPIPE_INLINE void worker::open(const std::vector<instruction>& program, bool clears) {
  context_.processes.begin({.action = "begin"});  // throws if the job has lost a process, before anything is sent
  if (step().gathers) gather_parameters();
  enqueue([&] {
    ties_.update_values(number_);
    if (!clears) return;
    for (const instruction& action : program)
      if (action.kind == action_kind::reduce) stage(action).clear_gradients();
  });
  if (!program.empty()) times_.prepared(program.front().stage);
}

GPIPE_INLINE GPIPE_OUT_OF_LINE void worker::gather_parameters() {
  for (const int s : stages_) {
    bound_stage& target = replica_->stage(s);
    order_after_previous(target);
    times_.waited(context_.sums->gather(replica_->number(), s, {s, -1, "gather"}));
    context_.wake_signals.progress(waiter_);
    target.refresh();
  }
  if (!ties_.any() || context_.plan.workers() == 1) return;
  // Other workers of the replica read them for tied uses.
  for (const int s : stages_) replica_->stage(s).context().finish();
  times_.waiting([&] { replica_->barrier().arrive(waiter_, {stages_.front(), -1, "gather"}); });
}

GPIPE_INLINE GPIPE_COLD void worker::begin_captured(const std::vector<instruction>& program) {
  if (!context_.device.has_graphs()) return;
  if (!captured_ || !std::exchange(captured_is_valid_, false)) {  // after a failure a graph may fail again
    std::vector<bound_stage*> stages;
    for (const int s : stages_) stages.push_back(&replica_->stage(s));
    captured_ = std::make_unique<captured_step>(std::move(stages));
  }
  if (captured_->matches(step())) captured_->repeat(step(), program);
  else captured_->record();
  recorded_ = captured_.get();
}

GPIPE_INLINE void worker::end_captured() {
  enqueue([this] { download(); });
  downloading_ = true;
  if (recorded_ != nullptr) {
    recorded_->end();
    recorded_->complete(step());
    recorded_ = nullptr;
  }
}

GPIPE_INLINE void worker::update_state() {
  for (const int s : stages_) {
    if (!replica_->stage(s).statistics().has_state()) continue;
    replica_->stage(s).statistics().update_state(step());
    downloading_ = false;  // sums of squares may have changed
  }
}

GPIPE_INLINE GPIPE_OUT_OF_LINE void worker::gather() {
  if (!downloading_) download();
  finish();
  if (!context_.processes.joined()) return;
  times_.waiting([&] {
    context_.barrier.arrive(waiter_, {.action = "gather"});  // the values of all workers of this process are complete
    if (waiter_ == 0) context_.processes.exchange(context_.decision.gathered, step().commits());
  });
}

GPIPE_INLINE void worker::download() {
  for (const int s : stages_) {
    const bound_stage& source = replica_->stage(s);
    if (step().trains()) source.download_squares(step().commits(), context_.decision.gathered.squares.data());
    if (step().predicts()) continue;
    for (const loss_location& loss : context_.decision.losses)
      if (context_.plan.cut().stage_of(loss.layer_index) == s)
        source.statistics().download(loss.layer_index, step(), context_.decision.gathered.partials.data() + loss.first);
  }
}

GPIPE_INLINE GPIPE_OUT_OF_LINE void worker::finish() {
  for (const int s : stages_) {
    try {
      if (!committed_) context_.processes.wait(s, {s, -1, "finish"});
      replica_->stage(s).context().finish();
    } catch (const error&) {
      detail::rethrow_named({committed_ ? action_kind::update : action_kind::reduce, s}, replica_->stage(s), step());
    }
  }
}

GPIPE_INLINE void worker::complete(int layer) {
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

GPIPE_INLINE void worker::record_end() {
  for (const int s : stages_) {
    order_after_previous(replica_->stage(s));
    times_.on_device().over(replica_->stage(s).context(), s);
  }
}

GPIPE_INLINE GPIPE_OUT_OF_LINE void worker::reduce(const instruction& action) {
  const bool commits = step().commits();
  if (commits && ties_.any()) {  // only in a commit are the gradients of all uses added to the owner's
    if (context_.plan.workers() == 1) {
      enqueue_on<false>(stage(action), [&] { add_tied_gradients(action); });
    } else {
      end_graph();
      add_tied_gradients(action);
    }
  }
  if (context_.sums != nullptr)
    times_.waited(context_.sums->sum(replica_->number(), action.stage, wait_context_of(action), commits));
  if (!stage(action).reported(commits).empty())
    enqueue_on<false>(stage(action), [&] { stage(action).sum_squares(commits); });
}

GPIPE_INLINE GPIPE_OUT_OF_LINE void worker::add_tied_gradients(const instruction& action) {
  if (!std::exchange(summed_, true)) {
    for (const int s : stages_) replica_->stage(s).context().mark(replica_->stage(s).done());
    times_.waiting([&] { replica_->barrier().arrive(waiter_, wait_context_of(action)); });
    ties_.send_gradients(number_);
  }
  ties_.add_gradients(action.stage, wait_context_of(action), times_);
}

// change: gradient clipping; the scale of a stage
GPIPE_INLINE GPIPE_OUT_OF_LINE void worker::update(const instruction& action) {
  if (!step().commits()) return;
  const commit_result& result = context_.decision.result;
  if (!committed_) {
    update_state();
    gather();
    const auto arrived = now_ns();
    context_.barrier.arrive(waiter_, wait_context_of(action), [this]() noexcept { decide(); });
    // The time after the decision is the update's.
    times_.waited((std::max)(std::int64_t{0}, result.decided_ns - arrived));
    times_.on_device().begin(context_of(action));
  }
  committed_ = true;
  if (!result.holds || !step().applies()) return;
  bound_stage& current_stage = stage(action);
  const update_terms terms{static_cast<std::int64_t>(step().step) + 1, context_.decision.terms.rate, result.scale};
  for (const update_range& range : current_stage.ranges())
    context_.rule(current_stage.context().handle(), context_.net.type, range, terms);
  if (context_.average_share > 0) current_stage.move_averages(context_.average_share);
  current_stage.statistics().commit();
  if (!current_stage.is_shared_out()) current_stage.refresh();  // else when they are gathered
  if (replica_->number() == 0 || current_stage.is_shared_out()) current_stage.updated();
}

GPIPE_INLINE void worker::decide() noexcept {
  context_.decision.result.decided_ns = now_ns();
  context_.sum_partials();
  context_.decision.decide();
}

}  // namespace gpipe::detail
