#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <gpipe/runtime/link/stage_io.hpp>
#include <gpipe/runtime/worker/action_timer.hpp>
#include <gpipe/runtime/worker/captured_step.hpp>
#include <gpipe/runtime/worker/failure.hpp>
#include <gpipe/runtime/worker/tied_parameters.hpp>
#include <gpipe/runtime/worker/worker_context.hpp>

namespace gpipe {

/// Walks a program. It knows its replica's stages, the channels to others, and nothing of schedules. Aligned, for what
/// it writes in every action must not share a cache line with another worker.
///
/// What it asks of its stages' devices happens later, in the order of the program: they take turns. It waits for them
/// twice in a step: before the gate, where the decision needs what they have found, and at the end.
template <class Device>
class alignas(alignment) worker final : private gradient_listener {
 public:
  using context = typename Device::context;

  /// `number` is the worker's in its replica, `seat` at the gate.
  GPIPE_COLD worker(const worker_context<Device>& worker_terms, replica<Device>& its, int number, int seat, recorder* trace)
      : context_(worker_terms),
        its_(&its),
        number_(number),
        seat_(seat),
        passes_(worker_terms.plan, its.channels()),
        ties_(worker_terms.plan, its, worker_terms.others),
        times_(its.step(), its.number(), reports_of(worker_terms, its.number()), trace) {
    for (int s = 0; s < context_.plan.stages(); ++s)
      if (context_.plan.worker_of(s) == number) own_.push_back(s);
  }

  /// One pass over a program; `clears` the gradients first. Throws the cause of a failure, named.
  void walk(const std::vector<instruction>& program, bool clears) {
    committed_ = summed_ = told_ = false;
    turn_ = nullptr;
    waiting_since_ = -1;
    times_.open(program.size());
    std::size_t done = 0;
    if constexpr (graph_device<Device>)
      if (step().written) done = walk_written(program, clears, written_);
    if (done == 0) open(program, clears);
    for (; done < program.size(); ++done) follow(program, done);
    if (times_.on_device().on()) note_end();
    if (committed_) finish();
    else gather();
    times_.close();
    if (step().written) sound_ = true;
  }

 private:
  // Before the first instruction.
  void open(const std::vector<instruction>& program, bool clears) {
    if (context_.others != nullptr)
      context_.others->begin({.action = "begin"});  // a job that has lost a process sends nothing more
    ties_.borrow(number_);
    if (clears)
      for (const instruction& i : program)
        if (i.kind == action_kind::reduce) stage(i).clear_gradients();
    if (!program.empty()) times_.prepared(program.front().stage);
  }

  void follow(const std::vector<instruction>& program, std::size_t at) {
    const instruction& i = program[at];
    if (i.micro_batch >= 0 && step().samples(i.micro_batch) == 0) return;
    const bool goes_on = at + 1 < program.size() && is_behind(program[at + 1], i);
    begin();
    stage(i).begin(told(i));
    try {
      if (context_.others != nullptr && !committed_) context_.others->begin(wait_context_of(i));
      if (context_.before && !committed_) context_.before({i.kind, i.stage, told(i), i.link});
      perform(i, goes_on);
    } catch (...) {
      detail::rethrow_named(i, stage(i), step());
    }
    context_.line.progress(seat_);
    times_.end(i, passes_);
  }
  void begin() {
    passes_.begin();
    times_.begin();
  }

  // What comes before the first update, written down or launched again; how many instructions that are.
  template <class Written>
  GPIPE_COLD std::size_t walk_written(const std::vector<instruction>& program, bool clears,
                                      std::unique_ptr<Written>& written) {
    std::size_t until = 0;
    while (program[until].kind != action_kind::update) ++until;
    if (!written || !std::exchange(sound_, false)) {  // what has failed may fail whenever it is launched
      std::vector<bound_stage<Device>*> stages;
      for (const int s : own_) stages.push_back(&its_->stage(s));
      written = std::make_unique<Written>(std::move(stages));
    }
    if (written->holds(step())) {
      written->refill(step(), program);
    } else {
      written->write(step(), [&] {
        open(program, clears);
        for (std::size_t i = 0; i < until; ++i) follow(program, i);
        tell();
      });
    }
    written->launch();
    told_ = true;
    return until;
  }

  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  const step_context& step() const { return its_->step(); }
  bound_stage<Device>& stage(const instruction& i) { return its_->stage(i.stage); }
  static std::span<stage_report> reports_of(const worker_context<Device>& worker_terms, int replica) {
    const std::size_t stages = index(worker_terms.plan.stages());
    return std::span(worker_terms.reports).subspan(index(replica) * stages, stages);
  }
  /// A micro-batch as others know it: counted through all replicas.
  int told(const instruction& i) const { return i.micro_batch < 0 ? -1 : step().among_all(i.micro_batch); }
  wait_context wait_context_of(const instruction& i) const { return {i.stage, told(i), name(i.kind)}; }

  const context& device(const instruction& i) { return stage(i).context(); }

  // Where the worker's stages have queues of their own, one follows the other in these, too.
  void take_turn(bound_stage<Device>& s) {
    if (turn_ == &s) return;
    if (turn_ != nullptr) {
      turn_->context().mark(over_);
      s.context().await(over_);
    }
    turn_ = &s;
  }

  // What the call's decision is made of comes to the host.
  GPIPE_OUT_OF_LINE void gather() {
    if (!told_) tell();
    finish();
    if (context_.others != nullptr) times_.waiting([&] { context_.others->exchange(context_.decision); });
  }
  void tell() {
    const int loss = step().predicted == nullptr ? context_.net.loss_slot() : -1;
    for (const int s : own_) {
      const bound_stage<Device>& its = its_->stage(s);
      if (step().training && its_->number() == 0) its.download_squares(context_.decision.squares.data());
      if (loss >= 0 && context_.plan.cut().stage_of(loss) == s)
        its.statistics().download(loss, step(), context_.decision.partials.data());
    }
  }
  GPIPE_OUT_OF_LINE void finish() {
    for (const int s : own_) {
      try {
        if (context_.others != nullptr && !committed_) context_.others->wait(s, {s, -1, "finish"});
        its_->stage(s).context().finish();
      } catch (const error&) {
        detail::rethrow_named({committed_ ? action_kind::update : action_kind::reduce, s}, its_->stage(s), step());
      }
    }
  }

  // While a stage's last backward runs, replicas sum what it has added to; its time is told apart.
  gradient_listener* listener(const instruction& i) {
    running_ = &i;
    return context_.sums != nullptr && i.micro_batch + 1 == step().filled() ? this : nullptr;
  }
  void complete(int slot) override {
    const instruction sums{action_kind::reduce, running_->stage, -1, -1};
    const auto summing = now_ns();
    if (!context_.sums->begin(running_->stage, slot, wait_context_of(sums))) return;
    times_.end(*running_, passes_, summing);
    begin();
    times_.end(sums, passes_);
  }

  // Whether it is the parameter part of the next micro-batch: they are made together, as many as a kernel takes.
  bool is_behind(const instruction& next, const instruction& i) const {
    return i.kind == action_kind::backward_parameters && next.kind == i.kind && next.stage == i.stage &&
           next.micro_batch == i.micro_batch + 1 && step().samples(next.micro_batch) > 0 &&
           (waiting_since_ < 0 || next.micro_batch - waiting_since_ < max_coalesced);
  }

  // `goes_on`: the parameter part of the next micro-batch comes next.
  void perform(const instruction& i, bool goes_on) {
    const int m = i.micro_batch;
    take_turn(stage(i));
    times_.on_device().begin(device(i));
    switch (i.kind) {
      case action_kind::receive_activation:
      case action_kind::receive_gradient: passes_.receive(device(i), i, wait_context_of(i)); break;
      case action_kind::send_activation:
      case action_kind::send_gradient: passes_.send(device(i), step(), i); break;
      case action_kind::forward:
        passes_.acquire_activations(device(i), i, wait_context_of(i));  // layers write straight into them
        stage(i).forward(step(), m);
        if (stage(i).has_copies()) times_.copying([&] { stage(i).pass_on(step(), m); });
        if (!step().training) passes_.release(device(i), i, false);
        break;
      case action_kind::recompute: stage(i).recompute(step(), m); break;
      case action_kind::backward_input:
        passes_.acquire_gradients(device(i), i, wait_context_of(i));
        stage(i).backward_input(step(), m);
        break;
      case action_kind::backward_parameters:
        if (waiting_since_ < 0) waiting_since_ = m;
        if (goes_on) break;
        stage(i).backward_parameters(step(), waiting_since_, m, [this] { context_.line.progress(seat_); }, listener(i));
        for (; waiting_since_ <= m; ++waiting_since_)
          passes_.release(device(i), {i.kind, i.stage, waiting_since_}, true);
        waiting_since_ = -1;
        break;
      case action_kind::backward:
        passes_.acquire_gradients(device(i), i, wait_context_of(i));
        stage(i).backward(step(), m, listener(i));
        passes_.release(device(i), i, true);
        break;
      case action_kind::reduce: reduce(i); break;
      case action_kind::update: update(i); break;
      case action_kind::idle: break;
    }
    times_.on_device().end(device(i), i);
  }
  void note_end() {
    for (const int s : own_) take_turn(its_->stage(s)), times_.on_device().over(its_->stage(s).context(), s);
  }

  GPIPE_OUT_OF_LINE void reduce(const instruction& i) {
    const bool commits = step().commits;
    if (commits && ties_.any()) {  // only then all uses of tied parameters become one sum
      if (!std::exchange(summed_, true)) {
        for (const int own : own_) its_->stage(own).context().mark(its_->stage(own).done());
        times_.waiting([&] { its_->barrier().arrive(seat_, wait_context_of(i)); });
        ties_.give();
      }
      ties_.take(i.stage, wait_context_of(i), times_);
    }
    if (context_.sums != nullptr) times_.waited(context_.sums->sum(its_->number(), i.stage, wait_context_of(i), commits));
    if (its_->number() == 0) stage(i).sum_squares(commits);  // the sums are the same in all
  }

  GPIPE_OUT_OF_LINE void update(const instruction& i) {
    if (!step().commits) return;
    if (!committed_) {
      gather();
      const auto here = now_ns();
      context_.barrier.arrive(seat_, wait_context_of(i), [this]() noexcept { decide(); });
      // What follows is the update's own.
      times_.waited((std::max)(std::int64_t{0}, context_.decision.closed_ns - here));
      times_.on_device().begin(device(i));
    }
    committed_ = true;
    if (!context_.decision.holds || !step().applied) return;
    bound_stage<Device>& s = stage(i);
    s.each_trained([&](std::size_t at, std::size_t bytes) {
      std::byte* moments[max_moments]{};
      for (int k = 0; k < context_.rule.moments(); ++k) moments[k] = s.moments(k) + at;
      context_.rule(s.context(), context_.net.type, bytes, s.parameters() + at, s.gradients() + at, moments,
                 {static_cast<std::int64_t>(step().step) + 1, context_.decision.rate, context_.decision.scale});
    });
    s.statistics().absorb(step());
    s.refresh();
    if (its_->number() == 0) s.updated();
  }

  void decide() noexcept {
    context_.decision.closed_ns = now_ns();
    context_.sum_partials();
    context_.decision.decide();
  }

  worker_context<Device> context_;
  replica<Device>* its_;
  int number_, seat_;
  detail::stage_io<Device> passes_;
  detail::tied_parameters<Device> ties_;
  detail::action_timer<Device> times_;
  std::vector<int> own_;  ///< stages
  bound_stage<Device>* turn_ = nullptr;  ///< the stage that was asked last
  [[no_unique_address]] typename Device::marker over_{};
  int waiting_since_ = -1;  ///< the first micro-batch whose parameter part waits for this one's
  bool summed_ = false;     ///< all stages' gradients of this step are there; asked only where some are tied
  bool told_ = false;       ///< what the decision needs was asked for
  bool committed_ = false;
  bool sound_ = false;      ///< the last pass that was written down came to its end
  const instruction* running_ = nullptr;  ///< whose gradients are listened to
  struct nothing {};
  using captured_step = typename std::conditional<graph_device<Device>, detail::captured_step<Device>, nothing>::type;
  std::unique_ptr<captured_step> written_;
};

}  // namespace gpipe
