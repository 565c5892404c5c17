#pragma once

#include <algorithm>
#include <chrono>
#include <limits>
#include <string>
#include <type_traits>

#include <gpipe/plan/program.hpp>
#include <gpipe/runtime/crew.hpp>
#include <gpipe/runtime/exchanged_all_reduce.hpp>
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
  /// What devices are asked for until the gate is written down as a graph, in the first step and in each that is unlike
  /// the one before, and launched in those that are like it: with other batches of as many samples, unless a layer
  /// draws random numbers. For devices that have graphs, and a plan of one worker. The bits are the same.
  bool graph = false;
  gpipe::peers* peers = nullptr;  ///< the job whose every process is one of the plan's workers; null: alone
  /// Called by every worker before each instruction of a step until it is committed: of a worker's updates, before the
  /// first. What it throws fails the step.
  std::function<void(const instruction&)> before{};
};

/// Runs a plan by a worker for each worker of the schedule, and of each replica: the first is the thread that calls, the
/// others are threads that live as long as the executor. In a job of processes each is one worker, and these share no
/// memory: every process makes the same calls with the same batches in the same order, those that read too, and has the
/// same answers.
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
    if (options_.graph) require_graph();
    require_memory();
    const int R = plan_.replicas(), S = plan_.stages(), K = plan_.workers();
    for (int r = 0; r < R; ++r) {
      for (int s = 0; s < S; ++s) report_of(r, s);
      const int only = options_.peers == nullptr ? -1 : options_.peers->rank() % K;
      replicas_.push_back(has_part(r) ? std::make_unique<replica<Device>>(net_, plan_, r, only, line_,
                                                                          options_.arena_fill,
                                                                          options_.link_bytes_per_second)
                                      : nullptr);
      if (has_part(r)) replicas_.back()->bind(kernels, options_.canary);
    }
    time_slots(options_.slot_times);
    if (options_.peers != nullptr) {
      replica<Device>& here = *replicas_[index(options_.peers->rank() / K)];
      others_ = std::make_unique<abroad>(*options_.peers, net_, plan_, here.maps());
      others_->connect(here.wires());
      if (R > 1) sums_ = std::make_unique<exchanged_all_reduce<Device>>(*options_.peers, net_, plan_, here);
    } else if (R > 1) {
      sums_ = std::make_unique<shared_all_reduce<Device>>(net_, plan_, line_, replicas_);
    }
    decision_.hold(net_, plan_.all_micro_batches());
    for (int rank = 0; rank < R * K && options_.trace_events > 0; ++rank)
      recorders_.emplace_back(options_.trace_events,
                              detail::phrase({R > 1 ? "replica " + std::to_string(rank / K) + ", " : "",
                                              K < S ? "worker " : "stage ", rank % K}));
    for (int r = 0; r < R; ++r)
      for (int w = 0; w < K; ++w)
        if (has_seat(r, w)) take_seat(r, w);
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
    step_.written = options_.graph && digest_.full();
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
    if (others_) share_rows(stage_of(net_.loss_slot()), into, first);
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
    ++step_.looks;
    for (int l = 0; l < net_.slot_count; ++l)
      if (net_.slots[l].owner == net_.slots[slot].owner)
        each_like(stage_of(l), [&](auto& stage) { stage.freeze(l, frozen); });
  }

  /// Copies a slot's outputs and their gradients out of every step and accumulated call, from now on or no longer.
  GPIPE_ONCE void watch(int slot, bool watched) {
    ++step_.looks;
    std::unique_ptr<detail::watched_rows> rows;
    if (watched) {
      rows = std::make_unique<detail::watched_rows>();
      for (int o = 0; o < net_.slots[slot].writes; ++o) {
        const value& of = net_.values[net_.writes_value(slot, o)];
        rows->outputs.add(of.part, plan_.most_samples());
        rows->gradients.add(of.gradient ? of.part : edge_part{0, of.part.type}, plan_.most_samples());
      }
    }
    each_like(stage_of(slot), [&](auto& stage) { stage.watch(slot, rows.get()); });
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
      if (is_here(0, s)) detail::append_measured(plan_, stage(s), found);
      if (others_) share_measured(s, found);
    }
    detail::require_measured(plan_, found);  // when all processes have it, for all of them
    return found;
  }

  const network& net() const { return net_; }
  const run_plan& plan() const { return plan_; }
  /// Steps taken; a step that failed does not count.
  std::uint64_t steps() const { return step_.step; }
  const bound_stage<Device>& stage(int s, int replica = 0) const { return replicas_[index(replica)]->stage(s); }

  /// Copies out of a slot's parameters, gradients (sums over the last step's samples), `index`-th moment or state:
  /// `bytes` of them, from `at` on; of tied ones, out of their owner's. Replicas have the same; while calls wait for a
  /// step only the first has the sums of gradients.
  GPIPE_ONCE void read(memory_kind kind, int slot, int index, std::size_t at, std::size_t bytes, void* into,
                       int replica = 0) const {
    const int s = stage_of(owner_of(kind, slot));
    if (is_here(replica, s)) {
      const auto& device = stage(s, replica).device();
      device.download(static_cast<std::ptrdiff_t>(bytes), block(kind, slot, index, replica) + at,
                      static_cast<std::byte*>(into));
      device.finish();
    }
    if (others_) others_->share(replica, s, into, bytes);
  }
  /// The same into them, and makes anew what is derived from parameters.
  GPIPE_ONCE void write(memory_kind kind, int slot, int index, std::size_t at, std::size_t bytes, const void* from) {
    upload(kind, slot, index, at, bytes, from);
    refresh();
  }

  /// Where they lie, in their stage's memory: not to be read where that is not the host's.
  std::byte* parameters(int slot) const { return block(memory_kind::parameters, slot, 0, 0); }
  std::byte* gradients(int slot) const { return block(memory_kind::gradients, slot, 0, 0); }
  std::byte* moments(int slot, int i) const { return block(memory_kind::moments, slot, i, 0); }
  std::byte* state(int slot) const { return block(memory_kind::state, slot, 0, 0); }

  /// Each stage's times in steps, of replica after replica, and each worker's events, since the last `forget`. Of plans
  /// that only run forward every evaluation is a step.
  GPIPE_ONCE const std::vector<stage_report>& report() const {
    if (others_)
      for (stage_report& r : reports_) others_->share(r.replica, r.stage, &r, sizeof r);
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
  int seats() const { return options_.peers == nullptr ? plan_.replicas() * plan_.workers() : 1; }
  bool has_seat(int replica, int worker) const {
    return options_.peers == nullptr || options_.peers->rank() == replica * plan_.workers() + worker;
  }
  bool has_part(int replica) const {
    return options_.peers == nullptr || options_.peers->rank() / plan_.workers() == replica;
  }
  bool is_here(int replica, int stage) const { return has_seat(replica, plan_.worker_of(stage)); }
  template <class Call>
  void each_stage(Call&& call) const {
    for (int s = 0; s < plan_.stages(); ++s) each_like(s, call);
  }
  template <class Call>
  void each_replica(Call&& call) const {
    for (const auto& it : replicas_)
      if (it) call(*it);
  }
  /// A stage, in each replica.
  template <class Call>
  void each_like(int s, Call&& call) const {
    for (const auto& it : replicas_)
      if (it && it->has(s)) call(it->stage(s));
  }
  GPIPE_ONCE void report_of(int r, int s) {
    stage_report its;
    its.stage = s, its.first = plan_.first[index(s)], its.last = plan_.first[index(s) + 1];
    its.predicted_share = plan_.share(s);
    its.bytes = static_cast<std::size_t>(plan_.memory[index(s)].total());
    its.parameters = parameters_of(s);
    its.replica = r, its.worker = r * plan_.workers() + plan_.worker_of(s);
    reports_.push_back(its);
  }
  GPIPE_ONCE void take_seat(int r, int w) {
    workers_.emplace_back(shop(), *replicas_[index(r)], w, static_cast<int>(workers_.size()),
                          recorders_.empty() ? nullptr : &recorders_[index(r * plan_.workers() + w)]);
    if (training_.size() == index(plan_.workers())) return;  // the programs of all replicas are the first's
    training_.push_back(program(plan_.schedule, w));
    evaluating_.push_back(program(plan_.schedule.forwards(), w));
  }
  void time_slots(bool on) {
    each_stage([on](auto& stage) { stage.time_slots(on); });
  }

  // Before anything is made that depends on it.
  GPIPE_ONCE void agree() {
    peers& job = *options_.peers;
    job.expect(options_.deadline);
    if (const int workers = plan_.replicas() * plan_.workers(); job.ranks() != workers)
      detail::refuse({"the job has ", job.ranks(), job.ranks() == 1 ? " process" : " processes", ", and the plan ",
                      detail::several(workers, "worker"), plan_.replicas() > 1 ? " in all replicas" : ""},
                     {"start a process for each worker, or choose as many stages as there are processes"});
    if (options_.link_bytes_per_second != 0)
      detail::refuse({"links between processes are not emulated"}, {"emulate them between threads"});
    if (!std::is_same_v<typename Device::marker, unmarked>)
      detail::refuse({"processes carry the memory of processors, and the stages are on another device"},
                     {"train in one process, which may have several such devices"});
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
  const bound_stage<Device>& owner(memory_kind kind, int slot, int replica) const {
    return stage(stage_of(owner_of(kind, slot)), replica);
  }
  std::byte* block(memory_kind kind, int slot, int i, int replica) const {
    return owner(kind, slot, replica).map().find(kind, owner_of(kind, slot), -1, {}, i).base;
  }
  // To every replica.
  void upload(memory_kind kind, int slot, int i, std::size_t at, std::size_t bytes, const void* from) {
    for (int r = 0; r < plan_.replicas(); ++r) {
      if (!is_here(r, stage_of(owner_of(kind, slot)))) continue;
      const auto& device = owner(kind, slot, r).device();
      device.upload(static_cast<std::ptrdiff_t>(bytes), static_cast<const std::byte*>(from),
                    block(kind, slot, i, r) + at);
      device.finish();
    }
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

  GPIPE_ONCE void require_graph() const {
    if (!graph_device<Device>)
      detail::refuse({"the device has no graphs"}, {"train without one, or on a device that writes down what it does"});
    if (const int all = plan_.workers() * plan_.replicas(); all != 1)
      detail::refuse({"a graph is of one worker, and the plan has ", all},
                     {"choose .workers = 1: it has all the stages, on one device"});
    if (options_.before || options_.slot_times)
      detail::refuse({"a step that is launched from a graph calls nobody before an instruction, and times no slot"},
                     {"train without a graph"});
  }

  // Before anything is allocated, for a machine that has promised too much ends programs without a word.
  GPIPE_ONCE void require_memory() const {
    std::int64_t left = Device::memory_left();
    for (int r = 0; r < plan_.replicas(); ++r)
      for (int s = 0; s < plan_.stages(); ++s) {
        if (!is_here(r, s)) continue;
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
      rounded_.resize(entering.size * static_cast<std::size_t>(plan_.most_samples()));
    step_.rows.rounded = rounded_.data();
    each_replica([this](auto& it) { it.take(step_); });
    for (int l = 0; l < net_.slot_count; ++l) {
      bool here = false;
      each_like(stage_of(l), [&](auto&) { here = true; });
      if (!here) continue;
      const row& r = net_.row_of(l);
      const auto put = [&](memory_kind kind) {
        return [this, kind, l](std::size_t at, std::size_t bytes, const std::byte* values) {
          upload(kind, l, 0, at, bytes, values);
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
    digest_ = {std::move(layers), plan_.all_micro_batches(), options_.digest_calls};
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
    if (training && data.samples() > 0 && data.samples() < plan_.least_samples())
      detail::refuse({"a batch of ", detail::several(data.samples(), "sample"), " is too small for ", plan_.replicas(),
                      " replicas"},
                     {"give at least one sample to each, or choose fewer replicas"});
    check_batch(net_, data, plan_.most_samples(), step_.rows, end);
    step_.samples_before = training ? decision_.earlier.samples : 0;
    step_.predicted = nullptr;
    step_.commits = true;
    step_.per_micro_batch = (data.samples() + plan_.all_micro_batches() - 1) / plan_.all_micro_batches();
    step_.training = training;
    step_.examining = step_.written = false;
    step_.applied = true;
    step_.measured = training || !plan_.schedule.trains;
  }

  void run(const std::vector<std::vector<instruction>>& programs) {
    each_replica([this](auto& it) { it.take(step_); });
    try {
      const auto walk = [&](int seat) {
        workers_[index(seat)].walk(programs[index(seat) % programs.size()], step_.clears());
      };
      if (others_) walk(0);
      else crew_.run(walk);
    } catch (...) {
      each_stage([](auto& stage) { stage.settle(); });
      each_replica([](auto& it) {
        for (auto& w : it.wires()) w.reset();
      });
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
          share_rows(stage_of(l), *rows, 0);
    for (int s = 0; s < plan_.stages(); ++s) {
      const int first = plan_.first[index(s)], last = plan_.first[index(s) + 1];
      const auto own = digest_.of_slots(first, last);
      std::vector<std::uint64_t> all(own.size());  // each is noted by one replica, and zero in the others
      for (int r = 0; r < plan_.replicas() && !own.empty(); ++r) {
        auto its = own;
        others_->share(r, s, its.data(), its.size() * sizeof(its[0]));
        for (std::size_t i = 0; i < all.size(); ++i) all[i] |= its[i];
      }
      digest_.put_slots(first, last, all);
    }
  }
  // Rows of the call's samples, which each replica has its part of.
  void share_rows(int s, sample_rows& rows, int before) {
    for (int r = 0; r < plan_.replicas(); ++r) {
      const int first = step_.first_sample(r * plan_.micro_batches());
      const int count = step_.first_sample((r + 1) * plan_.micro_batches()) - first;
      for (int t = 0; t < rows.tensors() && count > 0; ++t)
        others_->share(r, s, rows.at(t, before + first), rows.row_bytes(t) * index(count));
    }
  }
  GPIPE_ONCE void share_measured(int s, measured_profile& found) const {
    for (int l = plan_.first[index(s)]; l < plan_.first[index(s) + 1]; ++l) {
      measured_layer& line = found.layers.size() > index(l) ? found.layers[index(l)] : found.layers.emplace_back();
      std::int64_t ns[] = {line.forward_ns, line.backward_input_ns, line.backward_parameters_ns};
      others_->share(0, s, ns, sizeof ns);
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
    return {net_, plan_, rule_, replicas_, sums_.get(), line_, gate_, step_, decision_, reports_, options_.before,
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
    step_.applied = step_.measured = step_.written = false;
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
  replica_list<Device> replicas_;
  std::unique_ptr<all_reduce<Device>> sums_;  // null: there is one replica
  std::unique_ptr<abroad> others_;
  mutable std::vector<stage_report> reports_;  // [replica][stage]; of stages elsewhere as they were told last
  mutable std::vector<recorder> recorders_;    // so are those of their workers
  std::vector<bf16> rounded_;  // a batch's inputs, where it has floats and the model takes bf16
  step_state step_;
  std::int64_t begin_ns_ = 0;
  commit decision_;
  int accumulated_ = 0;
  std::vector<std::unique_ptr<detail::watched_rows>> watched_;  // [slot]
  gpipe::digest digest_;
  std::vector<std::vector<instruction>> training_, evaluating_;  // [worker of a replica]
  std::vector<worker<Device>> workers_;  // [seat]
  lifeline line_;
  gate gate_;
  crew crew_;  // last: its threads end first
};

}  // namespace gpipe
