#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gpipe/runtime/measured.hpp>
#include <gpipe/runtime/parameter_access.hpp>
#include <gpipe/runtime/preflight.hpp>
#include <gpipe/runtime/processes/collective_calls.hpp>
#include <gpipe/runtime/replicas/process_all_reduce.hpp>
#include <gpipe/runtime/run_report.hpp>
#include <gpipe/runtime/step/step_input.hpp>
#include <gpipe/runtime/watched_activations.hpp>
#include <gpipe/runtime/worker/explain.hpp>
#include <gpipe/runtime/worker/thread_team.hpp>
#include <gpipe/runtime/worker/worker.hpp>
#include <gpipe/runtime/worker/worker_programs.hpp>

namespace gpipe {

/// Runs a plan by a worker for each worker of the schedule, and of each replica: the first is the thread that calls,
/// the others are threads that live as long as the executor. In a job of processes each is one worker, and these share
/// no memory: every process makes the same calls with the same batches in the same order, those that read too, and has
/// the same answers.
/// Not for two callers at once.
///
///     walk the program  |  reduce  |  gate: all are here, loss and norm are finite  |  update  |  rest
///     `------------------- may fail: nothing is changed yet ---------------------'  `- cannot -'
template <class Device>
class executor {
 public:
  using context = typename Device::context;

  GPIPE_ONCE executor(const network& net, const kernel_row<context>* kernels, run_plan plan, update_rule<context> rule,
                      run_options options = {})
      : net_(net),
        plan_(std::move(plan)),
        rule_(std::move(rule)),
        options_(std::move(options)),
        here_(plan_, options_.peers),
        calls_(options_.peers),
        contents_(net_, plan_, here_, replicas_),
        records_(net_, plan_, options_.trace_events),
        looks_(net_, plan_, options_.digest_calls),
        intake_(net_, plan_, step_),
        programs_(plan_, here_),
        line_(here_.count(), detail::patience_of(here_.count(), options_.deadline)),
        gate_(line_, here_.count()),
        crew_(line_, here_.count()) {
    detail::admit<Device>(net_, plan_, rule_.trial(), options_, here_);
    replicas_.make(net_, plan_, here_, line_, options_, kernels);
    time_slots(options_.slot_times);
    if (options_.peers != nullptr) {
      replica<Device>& its = replicas_.at(here_.replica());
      others_ = std::make_unique<abroad>(*options_.peers, net_, plan_, its.maps(), its.queues());
      others_->connect(its.wires());
      if (plan_.replicas() > 1)
        sums_ = std::make_unique<exchanged_all_reduce<Device>>(*options_.peers, net_, plan_, its);
      options_.peers->connect();
    } else if (plan_.replicas() > 1) {
      sums_ = std::make_unique<shared_all_reduce<Device>>(net_, plan_, line_, replicas_);
    }
    decision_.hold(net_, plan_.all_micro_batches());
    for (int r = 0; r < plan_.replicas(); ++r)
      for (int w = 0; w < plan_.workers(); ++w)
        if (here_.has_worker(r, w))
          workers_.emplace_back(shop(), replicas_.at(r), w, static_cast<int>(workers_.size()),
                                records_.of_worker(r * plan_.workers() + w));
    if (options_.digest_calls > 0)
      replicas_.each_stage([this](auto& stage) { stage.note_in(looks_.digest()); });
    step_.seed = options_.seed;
    replicas_.each([this](auto& it) { it.take(step_); });
    contents_.initialise(options_.seed);
  }
  GPIPE_ONCE ~executor() = default;
  executor(const executor&) = delete;
  executor& operator=(const executor&) = delete;

  /// One step: forward, backward and update over the batch, together with what was accumulated for it. `clip` is the
  /// largest norm of the mean gradient; 0: any. On failure throws `error`, the first cause; parameters, moments,
  /// state and step count are as before.
  GPIPE_ONCE outcome train(const batch& data, double rate, double clip = 0) {
    intake_.require_training();
    calls_.together([&] {
      if (!std::isfinite(rate))
        detail::refuse({"the learning rate is ", std::to_string(rate)}, {"see the optimizer's and its schedule"},
                       {.step = static_cast<long>(step_.step)});
      if (!(clip >= 0)) detail::refuse({"the largest norm is ", std::to_string(clip)}, {"choose 0, for any, or more"});
      intake_.to_train(data, decision_.earlier.samples);
    });
    step_.written = options_.graph && digest().full();
    decision_.rate = rate;
    decision_.clip = clip;
    attempt([this] {
      run();
      if (!decision_.holds) explain();
    });
    ++step_.step;
    discard();
    return decision_.found;
  }

  /// Forward and backward over a part of the next step's mini-batch: gradients and weights are summed, what layers with
  /// state tell is kept for the commit, and nothing else changes. Tells what the mini-batch has so far. A batch that is
  /// refused changes nothing; of a call that fails later the gradients are mixed with those before, so then all that
  /// was accumulated is dropped, and the error says so.
  GPIPE_ONCE outcome accumulate(const batch& data) {
    intake_.require_training();
    calls_.together([&] { intake_.to_train(data, decision_.earlier.samples); });
    step_.commits = false;
    decision_.clip = 0;
    attempt([this] {
      run();
      settle();
      if (!decision_.finite) explain();
      replicas_.each_stage([this](auto& stage) { stage.told().keep(step_); });
    });
    decision_.earlier = decision_.found;
    ++accumulated_;
    return decision_.found;
  }
  /// Calls that wait for the next step, and an end to them.
  int accumulated() const { return accumulated_; }
  void discard() {
    decision_.earlier = {};
    accumulated_ = 0;
    replicas_.each_stage([](auto& stage) { stage.told().forget(); });
  }

  /// Forward only, without dropout. Throws `error` if the loss is not finite.
  GPIPE_ONCE outcome evaluate(const batch& data) {
    intake_.require_loss();
    calls_.together([&] { intake_.to_run_forward(data); });
    run();
    shop().sum_partials();
    if (!std::isfinite(decision_.found.loss)) explain();
    return decision_.found;
  }

  /// Forward only, without dropout, up to the loss: copies what enters it to the rows of `into` from `first` on. Fields
  /// that nothing before the loss reads may be missing.
  GPIPE_ONCE void predict(const batch& data, sample_rows& into, int first) {
    intake_.require_loss();
    calls_.together([&] { intake_.to_run_forward(data, net_.loss_slot()); });
    step_.predicted = &into;
    step_.samples_before = first;
    run();
    if (others_) detail::share_rows(*others_, plan_, step_, stage_of(net_.loss_slot()), into, first);
  }
  /// Rows for what enters the loss, of so many samples.
  GPIPE_ONCE sample_rows predictions(int samples) const {
    sample_rows rows;
    const int slot = net_.loss_slot();
    for (int i = 0; i < net_.row_of(slot).inputs; ++i) rows.add(net_.values[net_.reads_value(slot, i)].part, samples);
    rows.hold(samples);
    return rows;
  }

  /// Whether a slot's parameters and moments stay as they are, from the next call on, in every slot that uses them.
  /// Their gradient is then zero, and counts in no norm.
  GPIPE_ONCE void freeze(int slot, bool frozen) {
    calls_.agree_to_freeze(slot, frozen);
    ++step_.looks;
    for (int l = 0; l < net_.slot_count; ++l)
      if (net_.slots[l].owner == net_.slots[slot].owner)
        replicas_.each_like(stage_of(l), [&](auto& stage) { stage.freeze(l, frozen); });
  }

  /// Copies a slot's outputs and their gradients out of every step and accumulated call, from now on or no longer.
  GPIPE_ONCE void watch(int slot, bool watched) {
    calls_.agree_to_watch(slot, watched);
    ++step_.looks;
    detail::watched_rows* const rows = looks_.watch(slot, watched);
    replicas_.each_like(stage_of(slot), [&](auto& stage) { stage.watch(slot, rows); });
  }
  /// What was copied in the last call; no samples if it failed. Null if the slot is not watched.
  const detail::watched_rows* watched(int slot) const { return looks_.watched(slot); }

  const gpipe::digest& digest() const { return looks_.digest(); }

  /// Times every slot in so many steps over the batch, which are not applied: nothing changes but the gradients.
  GPIPE_ONCE measured_profile measure(const batch& data, int steps) {
    intake_.require_training();
    if (accumulated_ > 0)
      detail::refuse({"gradients of ", accumulated_, " accumulated calls wait for a step"},
                     {"take it, or discard them"});
    if (steps < 1) detail::refuse({steps, " steps measure nothing"}, {"choose at least 1"});
    struct timing {
      executor& of;
      explicit timing(executor& its) : of(its) { of.time_slots(true); }
      ~timing() { of.time_slots(of.options_.slot_times); }
    } const here(*this);
    for (int i = 0; i < steps; ++i) {
      calls_.together([&] { intake_.to_train(data, decision_.earlier.samples); });
      step_.applied = step_.measured = false;
      run();
    }
    return measured();
  }

  /// What each slot took for a full micro-batch: medians of the newest times.
  GPIPE_ONCE measured_profile measured() const {
    measured_profile found{{}, plan_.options.micro_batch_size};
    for (int s = 0; s < plan_.stages(); ++s) {
      if (here_.has_stage(0, s)) detail::append_measured(plan_, stage(s), found);
      if (others_) detail::share_measured(net_, plan_, *others_, s, found);
    }
    detail::require_measured(plan_, found);  // when all processes have it, for all of them
    return found;
  }

  const network& net() const { return net_; }
  const run_plan& plan() const { return plan_; }
  /// Steps taken; a step that failed does not count.
  std::uint64_t steps() const { return step_.step; }
  const bound_stage<Device>& stage(int s, int replica = 0) const { return replicas_.at(replica).stage(s); }

  /// Copies out of a slot's parameters, gradients (sums over the last step's samples), `index`-th moment or state:
  /// `bytes` of them, from `at` on; of tied ones, out of their owner's. Replicas have the same; while calls wait for a
  /// step only the first has the sums of gradients.
  GPIPE_ONCE void read(memory_kind kind, int slot, int index, std::size_t at, std::size_t bytes, void* into,
                       int replica = 0) const {
    contents_.read(kind, slot, index, at, bytes, into, replica, others_.get());
  }
  /// The same into them, and makes anew what is derived from parameters.
  GPIPE_ONCE void write(memory_kind kind, int slot, int index, std::size_t at, std::size_t bytes, const void* from) {
    calls_.agree_to_write(kind, slot, at, bytes, from);
    contents_.write(kind, slot, index, at, bytes, from);
    contents_.refresh();
  }

  /// Where they lie, in their stage's memory: not to be read where that is not the host's.
  std::byte* parameters(int slot) const { return contents_.find(memory_kind::parameters, slot, 0, 0); }
  std::byte* gradients(int slot) const { return contents_.find(memory_kind::gradients, slot, 0, 0); }
  std::byte* moments(int slot, int i) const { return contents_.find(memory_kind::moments, slot, i, 0); }
  std::byte* state(int slot) const { return contents_.find(memory_kind::state, slot, 0, 0); }

  /// Each stage's times in steps, of replica after replica, and each worker's events, since the last `forget`. Of plans
  /// that only run forward every evaluation is a step.
  GPIPE_ONCE const std::vector<stage_report>& report() const {
    if (others_) records_.share_stages(*others_);
    return records_.stages();
  }
  GPIPE_ONCE const std::vector<recorder>& trace() const {
    if (others_) records_.share_workers(*others_);
    return records_.workers();
  }
  void forget() { records_.forget(); }
  void forget_events() { records_.forget_events(); }

 private:
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  int stage_of(int slot) const { return plan_.cut().stage_of(slot); }

  void time_slots(bool on) {
    replicas_.each_stage([on](auto& stage) { stage.time_slots(on); });
  }

  // A call whose batch was taken in.
  void run() {
    const auto& programs = step_.training ? programs_.training() : programs_.evaluating();
    replicas_.each([this](auto& it) { it.take(step_); });
    try {
      calls_.enter(net_, step_, decision_);
      const auto walk = [&](int seat) {
        workers_[index(seat)].walk(programs[index(seat) % programs.size()], step_.clears());
      };
      if (others_) walk(0);
      else crew_.run(walk);
    } catch (...) {
      calls_.abandon();  // before devices are waited for
      replicas_.each_stage([](auto& stage) { stage.settle(); });
      replicas_.each([](auto& it) {
        for (auto& w : it.wires()) w.reset();
      });
      if (sums_) sums_->forget();
      clock();
      calls_.leave();
      throw;
    }
    clock();
  }
  void clock() {
    if (step_.measured) records_.add_step(now_ns() - intake_.came_ns());
  }

  // What of train and accumulate may fail when their batch was taken in.
  template <class Call>
  void attempt(Call&& call) {
    looks_.open(step_);
    try {
      call();
    } catch (const error& cause) {
      const int lost = accumulated_;
      discard();
      if (lost == 0) throw;
      std::throw_with_nested(
          error(cause.wrong(),
                detail::phrase({cause.remedy(), cause.remedy().empty() ? "" : "; ", "the gradients of ", lost,
                                " accumulated ", lost == 1 ? "call" : "calls", " are dropped: accumulate anew"}),
                cause.where()));
    } catch (...) {
      discard();
      throw;
    }
    looks_.close(step_, accumulated_, others_.get());
  }

  workshop<Device> shop() {
    return {net_, plan_, rule_, sums_.get(), line_, gate_, step_, decision_, records_.stages(), options_.before,
            others_.get()};
  }
  // What workers do at the gate where they commit.
  void settle() {
    shop().sum_partials();
    decision_.decide();
  }

  // Why a call is not finite.
  [[noreturn]] GPIPE_ONCE void explain() {
    detail::explain(step_, decision_, accumulated_, [&] {
      run();
      if (!step_.commits) settle();
    });
  }

  const network& net_;
  run_plan plan_;
  update_rule<context> rule_;
  run_options options_;
  seating here_;
  detail::collective_calls calls_;
  replica_list<Device> replicas_;
  contents<Device> contents_;
  std::unique_ptr<all_reduce<Device>> sums_;  // null: there is one replica
  std::unique_ptr<abroad> others_;
  mutable records records_;
  detail::looks looks_;
  step_state step_;
  detail::intake intake_;
  commit decision_;
  int accumulated_ = 0;
  detail::programs programs_;
  std::vector<worker<Device>> workers_;  // [seat]
  lifeline line_;
  gate gate_;
  crew crew_;  // last: its threads end first
};

}  // namespace gpipe
