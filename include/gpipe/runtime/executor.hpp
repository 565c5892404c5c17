#pragma once

#include <algorithm>
#include <chrono>
#include <limits>
#include <string>

#include <gpipe/plan/program.hpp>
#include <gpipe/runtime/crew.hpp>
#include <gpipe/runtime/initialise.hpp>
#include <gpipe/runtime/measured.hpp>
#include <gpipe/runtime/plan_traits.hpp>
#include <gpipe/runtime/worker.hpp>

namespace gpipe {

/// What a run may be told beside its plan.
struct run_options {
  std::uint64_t seed = 0;
  std::chrono::nanoseconds deadline = patience{}.deadline;  ///< without progress of any worker
  std::size_t trace_events = 0;                             ///< kept for each worker; 0: no trace
  std::byte arena_fill{0};                                  ///< what memory holds before its first use
  std::size_t digest_calls = 0;                             ///< of train and accumulate, hashed; 0: no digest
  bool canary = GPIPE_CANARY;  ///< poisons what is dead, so that a layer which reads it makes NaN of its gradients
  /// Emulates links: what one worker sends another is there when a link of so many bytes a second has carried it, each
  /// direction one transfer after the other. 0: at once.
  std::int64_t link_bytes_per_second = 0;
  bool slot_times = false;  ///< whether each slot is timed in every step, for `measured`
  gpipe::peers* peers = nullptr;  ///< the job whose every process is one of the plan's workers; null: alone
  /// Called by every worker before each instruction of a step until it is committed: of a worker's updates, before the
  /// first. What it throws fails the step.
  std::function<void(const instruction&)> before{};
};

/// Runs a plan by a worker for each worker of the schedule: the first is the thread that calls, the others are threads
/// that live as long as the executor. In a job of processes each is one worker, and these share no memory: every process
/// makes the same calls with the same batches in the same order, those that read too, and has the same answers.
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
        line_(seats(), limits(seats(), options_.deadline)),
        gate_(line_, seats()),
        crew_(line_, seats()) {
    if (options_.peers != nullptr) agree();
    require_memory();
    const int S = plan_.stages(), K = plan_.workers();
    std::vector<const detail::arena_map*> maps;
    for (int s = 0; s < S; ++s) {
      stages_.push_back(is_here(s) ? std::make_unique<bound_stage<Device>>(net_, plan_, s, options_.arena_fill)
                                   : nullptr);
      maps.push_back(is_here(s) ? &stages_.back()->map() : nullptr);
      reports_.push_back({s, plan_.first[index(s)], plan_.first[index(s) + 1], plan_.share(s), {}, 0, 0,
                          static_cast<std::size_t>(plan_.memory[index(s)].total()), parameters_of(s),
                          plan_.worker_of(s)});
    }
    for (int w = 0; w < K && options_.trace_events > 0; ++w)
      recorders_.emplace_back(options_.trace_events, detail::phrase({K < S ? "worker " : "stage ", w}));
    each_stage([&](auto& stage) { stage.bind(maps, kernels, options_.canary); });
    time_slots(options_.slot_times);
    if (options_.peers == nullptr) {
      wires_ = make_wires<typename Device::marker>(net_, plan_, line_, options_.link_bytes_per_second);
    } else {
      wires_.resize(plan_.links.size());
      others_ = std::make_unique<abroad>(*options_.peers, net_, plan_, maps);
      others_->connect(wires_);
    }
    decision_.hold(net_, plan_.micro_batches());
    for (int w = 0; w < K; ++w) {
      if (!has_seat(w)) continue;
      const int seat = static_cast<int>(workers_.size());
      workers_.emplace_back(shop(), w, seat, recorders_.empty() ? nullptr : &recorders_[index(w)]);
      training_.push_back(program(plan_.schedule, w));
      evaluating_.push_back(program(plan_.schedule.forwards(), w));
    }
    initialise();
    look();
  }
  GPIPE_ONCE ~executor() = default;
  executor(const executor&) = delete;
  executor& operator=(const executor&) = delete;

  /// One step: forward, backward and update over the batch, together with what was accumulated for it. `clip` is the
  /// largest norm of the mean gradient; 0: any. On failure throws `error`, the first cause; parameters, moments,
  /// state and step count are as before.
  GPIPE_ONCE outcome train(const batch& data, double rate, double clip = 0) {
    require_training();
    if (!std::isfinite(rate))
      detail::refuse({"the learning rate is ", std::to_string(rate)}, {"see the optimizer's and its schedule"},
                     {.step = static_cast<long>(step_.step)});
    if (!(clip >= 0)) detail::refuse({"the largest norm is ", std::to_string(clip)}, {"choose 0, for any, or more"});
    take(data, true);
    decision_.rate = rate;
    decision_.clip = clip;
    attempt([this] {
      run(training_);
      if (!decision_.holds) explain(training_);
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
    require_training();
    take(data, true);
    step_.commits = false;
    decision_.clip = 0;
    attempt([this] {
      run(training_);
      settle();
      if (!decision_.finite) explain(training_);
      each_stage([this](auto& stage) { stage.keep_told(step_); });
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
    each_stage([](auto& stage) { stage.forget_told(); });
  }

  /// Forward only, without dropout. Throws `error` if the loss is not finite.
  GPIPE_ONCE outcome evaluate(const batch& data) {
    require_loss();
    take(data, false);
    run(evaluating_);
    shop().sum_partials();
    if (!std::isfinite(decision_.found.loss)) explain(evaluating_);
    return decision_.found;
  }

  /// Forward only, without dropout, up to the loss: copies what enters it to the rows of `into` from `first` on. Fields
  /// that nothing before the loss reads may be missing.
  GPIPE_ONCE void predict(const batch& data, sample_rows& into, int first) {
    require_loss();
    take(data, false, net_.loss_slot());
    step_.predicted = &into;
    step_.samples_before = first;
    run(evaluating_);
    for (int t = 0; others_ && t < into.tensors(); ++t)
      others_->share(stage_of(net_.loss_slot()), into.at(t, first), into.row_bytes(t) * index(data.samples()));
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
    for (int l = 0; l < net_.slot_count; ++l)
      if (auto& stage = stages_[index(stage_of(l))]; stage && net_.slots[l].owner == net_.slots[slot].owner)
        stage->freeze(l, frozen);
  }

  /// Copies a slot's outputs and their gradients out of every step and accumulated call, from now on or no longer.
  GPIPE_ONCE void watch(int slot, bool watched) {
    std::unique_ptr<detail::watched_rows> rows;
    if (watched) {
      rows = std::make_unique<detail::watched_rows>();
      for (int o = 0; o < net_.slots[slot].writes; ++o) {
        const value& of = net_.values[net_.writes_value(slot, o)];
        rows->outputs.add(of.part, plan_.most_samples());
        rows->gradients.add(of.gradient ? of.part : edge_part{0, of.part.type}, plan_.most_samples());
      }
    }
    if (auto& stage = stages_[index(stage_of(slot))]) stage->watch(slot, rows.get());
    watched_[index(slot)] = std::move(rows);
  }
  /// What was copied in the last call; no samples if it failed. Null if the slot is not watched.
  const detail::watched_rows* watched(int slot) const { return watched_[index(slot)].get(); }

  const gpipe::digest& digest() const { return digest_; }

  /// Times every slot in so many steps over the batch, which are not applied: nothing changes but the gradients.
  GPIPE_ONCE measured_profile measure(const batch& data, int steps) {
    require_training();
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
      take(data, true);
      step_.applied = step_.measured = false;
      run(training_);
    }
    return measured();
  }

  /// What each slot took for a full micro-batch: medians of the newest times.
  GPIPE_ONCE measured_profile measured() const {
    measured_profile found{{}, plan_.options.micro_batch_size};
    for (int s = 0; s < plan_.stages(); ++s) {
      if (is_here(s)) detail::append_measured(plan_, *stages_[index(s)], found);
      if (others_) share_measured(s, found);
    }
    return found;
  }

  const network& net() const { return net_; }
  const run_plan& plan() const { return plan_; }
  /// Steps taken; a step that failed does not count.
  std::uint64_t steps() const { return step_.step; }
  const bound_stage<Device>& stage(int s) const { return *stages_[index(s)]; }

  /// Copies out of a slot's parameters, gradients (sums over the last step's samples), `index`-th moment or state:
  /// `bytes` of them, from `at` on; of tied ones, out of their owner's.
  GPIPE_ONCE void read(memory_kind kind, int slot, int index, std::size_t at, std::size_t bytes, void* into) const {
    const int stage = stage_of(owner_of(kind, slot));
    if (is_here(stage)) {
      const auto& device = stages_[this->index(stage)]->device();
      device.download(static_cast<std::ptrdiff_t>(bytes), block(kind, slot, index) + at, static_cast<std::byte*>(into));
      device.finish();
    }
    if (others_) others_->share(stage, into, bytes);
  }
  /// The same into them, and makes anew what is derived from parameters.
  GPIPE_ONCE void write(memory_kind kind, int slot, int index, std::size_t at, std::size_t bytes, const void* from) {
    if (is_here(stage_of(owner_of(kind, slot))))
      owner(kind, slot).device().upload(static_cast<std::ptrdiff_t>(bytes), static_cast<const std::byte*>(from),
                                        block(kind, slot, index) + at);
    refresh();
  }

  /// Where they lie, in their stage's memory: not to be read where that is not the host's.
  std::byte* parameters(int slot) const { return block(memory_kind::parameters, slot, 0); }
  std::byte* gradients(int slot) const { return block(memory_kind::gradients, slot, 0); }
  std::byte* moments(int slot, int i) const { return block(memory_kind::moments, slot, i); }
  std::byte* state(int slot) const { return block(memory_kind::state, slot, 0); }

  /// Each stage's times in steps, and each worker's events, since the last `forget`. Of plans that only run forward
  /// every evaluation is a step.
  GPIPE_ONCE const std::vector<stage_report>& report() const {
    for (int s = 0; others_ && s < plan_.stages(); ++s)
      others_->share(s, &reports_[index(s)], sizeof(stage_report));
    return reports_;
  }
  GPIPE_ONCE const std::vector<recorder>& trace() const {
    for (std::size_t w = 0; others_ && w < recorders_.size(); ++w)
      recorders_[w].share([&](void* bytes, std::size_t size) {
        options_.peers->broadcast(bytes, size, static_cast<int>(w));
      });
    return recorders_;
  }
  GPIPE_ONCE void forget() {
    for (auto& r : reports_) r.busy_ns = {}, r.wait_ns = r.link_ns = r.step_ns = 0, r.steps = 0;
    forget_events();
  }
  void forget_events() {
    for (auto& r : recorders_) r.clear();
  }

 private:
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  int stage_of(int slot) const { return plan_.cut().stage_of(slot); }

  // In this process.
  int seats() const { return options_.peers == nullptr ? plan_.workers() : 1; }
  bool has_seat(int worker) const { return options_.peers == nullptr || options_.peers->rank() == worker; }
  bool is_here(int stage) const { return has_seat(plan_.worker_of(stage)); }
  template <class Call>
  void each_stage(Call&& call) const {
    for (const auto& stage : stages_)
      if (stage) call(*stage);
  }
  void time_slots(bool on) {
    each_stage([on](auto& stage) { stage.time_slots(on); });
  }

  // Before anything is made that depends on it.
  GPIPE_ONCE void agree() {
    peers& job = *options_.peers;
    job.expect(options_.deadline);
    if (job.ranks() != plan_.workers())
      detail::refuse({"the job has ", job.ranks(), job.ranks() == 1 ? " process" : " processes", ", and the plan ",
                      detail::several(plan_.workers(), "worker")},
                     {"start a process for each worker, or choose as many stages as there are processes"});
    if (options_.link_bytes_per_second != 0)
      detail::refuse({"links between processes are not emulated"}, {"emulate them between threads"});
    if (!plan_.options.apart)
      detail::refuse({"the plan's workers share memory, and processes do not"}, {"make it with .apart = true"});
    job.agree(traits_of(net_, plan_, options_.seed));
  }
  static patience limits(int workers, std::chrono::nanoseconds deadline) {
    if (deadline <= deadline.zero())
      detail::refuse({"a deadline of ", detail::told(deadline), " is over before a step begins"},
                     {"choose one longer than a micro-batch takes"});
    patience p = patience::of(workers);
    p.deadline = deadline;
    return p;
  }
  // State is a slot's own, all else its owner's.
  int owner_of(memory_kind kind, int slot) const { return kind == memory_kind::state ? slot : net_.slots[slot].owner; }
  const bound_stage<Device>& owner(memory_kind kind, int slot) const {
    return *stages_[index(stage_of(owner_of(kind, slot)))];
  }
  std::byte* block(memory_kind kind, int slot, int i) const {
    return owner(kind, slot).map().find(kind, owner_of(kind, slot), -1, {}, i).base;
  }
  void refresh() {
    each_stage([](auto& stage) { stage.refresh(); });
    each_stage([](auto& stage) { stage.device().finish(); });
  }
  std::size_t parameters_of(int s) const {
    std::size_t sum = 0;
    for (int l = plan_.first[index(s)]; l < plan_.first[index(s) + 1]; ++l)
      if (net_.owns(l)) sum += net_.row_of(l).parameter_elements();
    return sum;
  }

  // Before anything is allocated, for a machine that has promised too much ends programs without a word.
  GPIPE_ONCE void require_memory() const {
    std::int64_t left = Device::memory_left();
    for (int s = 0; s < plan_.stages(); ++s) {
      if (!is_here(s)) continue;
      const std::int64_t needed = plan_.memory[index(s)].total();
      if (needed > left)
        detail::refuse({"the stage needs ", needed, " bytes, and the machine has ", left, " left"},
                       {"recompute more, make micro-batches smaller, or use a machine with more memory"},
                       {.stage = s});
      left -= needed;
    }
  }

  GPIPE_ONCE std::vector<instruction> program(schedule_choice schedule, int worker) const {
    std::vector<instruction> lines;
    lower(
        schedule, plan_.stages(), plan_.micro_batches(), plan_.recompute(), plan_.links.data(),
        static_cast<int>(plan_.links.size()), worker, [&](const instruction& i) { lines.push_back(i); },
        send_mode::buffered);
    return lines;
  }

  GPIPE_ONCE void initialise() {
    step_.seed = options_.seed;
    step_.rows.fields.resize(static_cast<std::size_t>(net_.field_count));  // so that no step allocates
    if (const edge_part& entering = net_.values[0].part; entering.type == dtype::bf16)
      step_.rows.rounded.resize(entering.size * static_cast<std::size_t>(plan_.most_samples()));
    for (int l = 0; l < net_.slot_count; ++l) {
      if (!is_here(stage_of(l))) continue;
      const row& r = net_.row_of(l);
      const auto put = [&](memory_kind kind) {
        return [this, kind, l](std::size_t at, std::size_t bytes, const std::byte* values) {
          const auto& device = owner(kind, l).device();
          device.upload(static_cast<std::ptrdiff_t>(bytes), values, block(kind, l, 0) + at);
          device.finish();
        };
      };
      if (net_.owns(l))
        first_values(r.type, r.parameters, r.parameter_count, options_.seed, l, 0, put(memory_kind::parameters));
      if (r.state_count > 0)
        first_values(r.type, r.state, r.state_count, options_.seed, l, r.parameter_count, put(memory_kind::state));
    }
    refresh();
  }
  // Room for what may be asked of steps, so that they allocate nothing.
  GPIPE_ONCE void look() {
    watched_.resize(static_cast<std::size_t>(net_.slot_count));
    if (const int slot = net_.loss_slot(); slot >= 0 && net_.row_of(slot).partial_elements() > max_metrics)
      detail::refuse({"the loss tells ", net_.row_of(slot).partial_elements(), " numbers"},
                     {"an outcome tells at most ", max_metrics},
                     {.layer = std::string(net_.row_of(slot).name), .slot = slot});
    if (options_.digest_calls == 0) return;
    std::vector<std::string> layers;
    for (int l = 0; l < net_.slot_count; ++l) layers.emplace_back(net_.row_of(l).name);
    digest_ = {std::move(layers), plan_.micro_batches(), options_.digest_calls};
    each_stage([this](auto& stage) { stage.note_in(digest_); });
  }

  void require_training() const {
    require_loss();
    if (!plan_.schedule.trains)
      detail::refuse({"the schedule ", plan_.schedule.name(), " has no backward"}, {"train with another one"});
  }
  void require_loss() const {
    if (net_.loss_slot() < 0)
      detail::refuse({"the model has no loss"}, {"end it with a layer such as softmax_cross_entropy"});
  }

  // Layers before slot `end` run.
  void take(const batch& data, bool training, int end = (std::numeric_limits<int>::max)()) {
    begin_ns_ = now_ns();
    check_batch(net_, data, plan_.most_samples(), step_.rows, end);
    step_.samples_before = training ? decision_.earlier.samples : 0;
    step_.predicted = nullptr;
    step_.commits = true;
    step_.per_micro_batch = (data.samples() + plan_.micro_batches() - 1) / plan_.micro_batches();
    step_.training = training;
    step_.examining = false;
    step_.applied = true;
    step_.measured = training || !plan_.schedule.trains;
  }

  void run(const std::vector<std::vector<instruction>>& programs) {
    try {
      const auto walk = [&](int w) { workers_[index(w)].walk(programs[index(w)], step_.clears()); };
      if (others_) walk(0);
      else crew_.run(walk);
    } catch (...) {
      each_stage([](auto& stage) { stage.settle(); });
      for (auto& w : wires_) w.reset();
      clock();
      if (others_) others_->leave();
      throw;
    }
    clock();
  }
  void clock() {
    if (!step_.measured) return;
    const auto took = now_ns() - begin_ns_;
    for (auto& r : reports_) r.step_ns += took, ++r.steps;
  }

  // A call of train or accumulate, after its batch was taken.
  template <class Call>
  void attempt(Call&& call) {
    for (auto& rows : watched_)
      if (rows) rows->outputs.hold(0), rows->gradients.hold(0);
    if (!digest_.full()) note_data();
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
    for (auto& rows : watched_)
      if (rows) rows->outputs.hold(step_.rows.samples), rows->gradients.hold(step_.rows.samples);
    if (others_) share_looks();
    digest_.close({step_.step, accumulated_});
  }

  // What was copied and noted in this call, for all processes.
  GPIPE_ONCE void share_looks() {
    for (int l = 0; l < net_.slot_count; ++l)
      if (watched_[index(l)])
        for (sample_rows* rows : {&watched_[index(l)]->outputs, &watched_[index(l)]->gradients})
          for (int t = 0; t < rows->tensors(); ++t)
            others_->share(stage_of(l), rows->at(t, 0), rows->row_bytes(t) * index(step_.rows.samples));
    for (int s = 0; s < plan_.stages(); ++s) {
      auto hashes = digest_.of_slots(plan_.first[index(s)], plan_.first[index(s) + 1]);
      if (!hashes.empty()) others_->share(s, hashes.data(), hashes.size() * sizeof(hashes[0]));
      if (!is_here(s)) digest_.put_slots(plan_.first[index(s)], plan_.first[index(s) + 1], hashes);
    }
  }
  GPIPE_ONCE void share_measured(int s, measured_profile& found) const {
    for (int l = plan_.first[index(s)]; l < plan_.first[index(s) + 1]; ++l) {
      measured_layer& line = found.layers.size() > index(l) ? found.layers[index(l)] : found.layers.emplace_back();
      std::int64_t ns[] = {line.forward_ns, line.backward_input_ns, line.backward_parameters_ns};
      others_->share(s, ns, sizeof ns);
      line = {l, net_.row_of(l).name, ns[0], ns[1], ns[2]};
    }
  }

  GPIPE_ONCE void note_data() {
    digest_.open();
    hash sum;
    const auto add = [&](const std::byte* rows, std::size_t size, dtype type) {
      if (rows != nullptr) sum.add(rows, size * bytes_of(type) * static_cast<std::size_t>(step_.rows.samples));
    };
    add(step_.rows.inputs, net_.values[0].part.size, net_.values[0].part.type);
    for (int f = 0; f < net_.field_count; ++f)
      add(step_.rows.fields[index(f)], net_.fields[f].size, net_.fields[f].type);
    digest_.put(act::idle, -1, -1, sum.value());
  }

  workshop<Device> shop() {
    return {net_, plan_, rule_, stages_, wires_, line_, gate_, step_, decision_, reports_, options_.before,
            others_.get()};
  }
  // What workers do at the gate where they commit.
  void settle() {
    shop().sum_partials();
    decision_.decide();
  }

  // Replays what did not come out finite, looking at each layer, to name the one where it began.
  [[noreturn]] GPIPE_ONCE void explain(const std::vector<std::vector<instruction>>& programs) {
    const auto where = place{.step = static_cast<long>(step_.step)};
    if (step_.commits && decision_.found.weight < (std::numeric_limits<float>::min)())
      detail::refuse({"the weights of the batch's samples sum to ", std::to_string(decision_.found.weight)},
                     {"give at least one sample a positive weight"}, where);
    step_.examining = true;
    step_.applied = step_.measured = false;
    run(programs);
    if (step_.training && accumulated_ > 0)
      throw error("the sum of the accumulated gradients is not finite, though those of this call are",
                  "lower the learning rate or the loss; parameters are as before the step", where);
    if (!step_.commits) settle();
    if (!step_.training || decision_.holds)
      throw error("a number was not finite, and was when it was computed again",
                  "see whether the data change meanwhile; parameters are as before", where);
    throw error("the norm of the gradient is not finite, though every gradient is",
                "lower the learning rate or the loss; parameters are as before the step", where);
  }

  const network& net_;
  run_plan plan_;
  update_rule<context> rule_;
  run_options options_;
  std::vector<std::unique_ptr<bound_stage<Device>>> stages_;
  std::vector<wire<typename Device::marker>> wires_;
  std::unique_ptr<abroad> others_;
  mutable std::vector<stage_report> reports_;  // of stages elsewhere as they were told last
  mutable std::vector<recorder> recorders_;    // so are those of their workers
  step_state step_;
  std::int64_t begin_ns_ = 0;
  commit decision_;
  int accumulated_ = 0;
  std::vector<std::unique_ptr<detail::watched_rows>> watched_;  // [slot]
  gpipe::digest digest_;
  std::vector<std::vector<instruction>> training_, evaluating_;  // [worker]
  std::vector<worker<Device>> workers_;
  lifeline line_;
  gate gate_;
  crew crew_;  // last: its threads end first
};

}  // namespace gpipe
