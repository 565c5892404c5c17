#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include <gpipe/core/numbers/finite.hpp>
#include <gpipe/core/numbers/float_environment.hpp>
#include <gpipe/plan/memory/memory_kind.hpp>
#include <gpipe/plan/step_plan.hpp>
#include <gpipe/record/measured_profile.hpp>
#include <gpipe/record/trace.hpp>
#include <gpipe/runtime/executor_owner.hpp>
#include <gpipe/runtime/length_plan.hpp>
#include <gpipe/runtime/parameter_access.hpp>
#include <gpipe/runtime/preflight.hpp>
#include <gpipe/runtime/processes/broadcast.hpp>
#include <gpipe/runtime/run_report.hpp>
#include <gpipe/runtime/step/step_input.hpp>
#include <gpipe/runtime/watched_activations.hpp>
#include <gpipe/runtime/worker/pass_runner.hpp>

namespace gpipe {

/// Runs a plan with one worker thread for each worker of the schedule and each replica. The first worker is the thread
/// that calls; the others live as long as the executor. In a job each process has some of the workers, and processes
/// share no memory: every process makes the same calls with the same batches in the same order, also those that read,
/// and gets the same results. It needs the fields of a batch that its own layers read. Not thread-safe.
///
/// A training of several lengths has a plan for each. `net` and `plan` are those of the longest, in whose memory all
/// run. Each call runs the plan of its batch's length.
///
///     run the program  |  reduce  |  barrier: all have arrived, loss and norm are finite  |  update  |  rest
///     `---------------------- may fail: nothing has changed yet ------------------------'  `- cannot -'
template <class Device>
class executor {
 public:
  using context = typename Device::context;

  GPIPE_COLD executor(const network& net, const detail::kernel_row<context>* kernels, step_plan plan,
                      detail::optimizer_update<context> rule, training_options options = {},
                      std::vector<detail::length_plan<context>> shorter = {})
      : net_(net),
        shorter_(std::move(shorter)),
        plan_(with_largest_arena(std::move(plan), shorter_)),
        rule_(std::move(rule)),
        options_(std::move(options)),
        groups_(net_, options_.groups),
        here_(plan_, options_.job),
        all_(plan_, options_.job),
        report_{net_, admitted(), here_.count(), options_.trace_events,  // in this order: a job admits, then counts
                options_.job == nullptr ? host_cores{} : options_.job->on_this_host()},
        watched_(net_, plan_, options_.digest_calls),
        input_(net_, plan_, step_, {here_.layers_here(net_.layer_count), options_.job == nullptr ? -1 : rank()}),
        passes_(net_, plan_, rule_, options_, here_, step_, decision_, report_.stages(),
                detail::wait_limits_of(here_.count(), options_.deadline)),
        parameters_(net_, plan_, here_, replicas()) {
    passes_.connect(kernels, [this](int replica, int worker) { return report_.of_worker(replica, worker); });
    for (const detail::length_plan<context>& it : shorter_) add_length(it);
    time_layers(options_.layer_times);
    if (options_.digest_calls > 0) each_stage([this](auto& stage) { stage.record_in(watched_.digest()); });
    step_.seed = options_.seed;
    for (std::size_t k = 0; k < passes_.plans(); ++k) passes_.replicas(k).each([this](auto& it) { it.begin(step_); });
    rule_.use(groups_);
    each_stage([this](auto& stage) { stage.begin_updates(groups_); });
    set_first_values();
  }
  /// An executor in which a kernel does not return is never destroyed: see `executor_owner`.
  GPIPE_COLD ~executor() {
    if (!stuck()) return;
    std::fputs("gpipe: an executor is destroyed while a kernel still runs in it; hold it by executor_owner\n", stderr);
    std::abort();
  }
  executor(const executor&) = delete;
  executor& operator=(const executor&) = delete;

  /// One step: forward, backward and update over the batch and all that was accumulated. `max_norm` is the largest norm
  /// of the mean gradient; 0: no limit. On failure throws `error`, the first cause; parameters, moments, state and step
  /// count are as before.
  GPIPE_COLD step_result train(const batch& data, double rate, double max_norm = 0) {
    input_.require_training();
    calls().together([&] {
      // Updates compute with the rate as a number of the parameters' type.
      const double max_rate = detail::visit_dtype<double, float>(
          net_.type, [&]<class T>() { return static_cast<double>((std::numeric_limits<T>::max)()); });
      if (!detail::is_finite(rate) || !(std::fabs(rate) <= max_rate))
        detail::throw_error({"the learning rate is ", detail::significant(rate, 6),
                             detail::is_finite(rate) ? ", which a float cannot hold" : ""},
                            {"check the learning rate of the optimizer and its schedule"},
                            {.step = static_cast<long>(step_.step)});
      detail::require_max_norm(max_norm);
      if (rate > checked_rate_) {  // at a later step no rule multiplies it by more
        rule_.require_finite(net_.type, {static_cast<std::int64_t>(step_.step + 1), rate, 1});
        checked_rate_ = rate;
      }
      choose(data);
      input().begin(
          detail::pass_kind::train, data,
          {.samples_before = decision_.terms.accumulated.samples, .captured = options_.graph && digest().full()});
    });
    decision_.terms.rate = rate;
    decision_.terms.max_norm = max_norm;
    first_values_ = false;
    attempt([this] {
      passes_.run();
      if (!decision_.result.holds) passes_.throw_nonfinite(accumulated_);
    });
    ++step_.step;
    discard_accumulated();
    return decision_.result.found;
  }

  /// Forward and backward over a part of the next step's mini-batch. Sums gradients and weights, keeps the statistics
  /// of layers with state for the commit, and changes nothing else. Returns the result of the mini-batch so far. If the
  /// batch is invalid, nothing changes. If the call fails later, its gradients are mixed with those before; then all
  /// that was accumulated is dropped, and the error says so.
  GPIPE_COLD step_result accumulate(const batch& data) {
    input_.require_training();
    detail::require_kept_gradients(plan_);
    calls().together([&] {
      choose(data);
      input().begin(detail::pass_kind::accumulate, data, {.samples_before = decision_.terms.accumulated.samples});
    });
    decision_.terms.max_norm = 0;
    attempt([this] {
      passes_.run();
      passes_.decide();
      if (!decision_.result.finite || !decision_.result.same_weights) passes_.throw_nonfinite(accumulated_);
      replicas_now().each_stage([this](auto& stage) { stage.statistics().keep(step_); });
    });
    decision_.terms.accumulated = decision_.result.found;
    ++accumulated_;
    return decision_.result.found;
  }
  /// The number of accumulated calls that wait for the next step.
  int accumulated() const { return accumulated_; }
  void discard_accumulated() {
    decision_.terms.accumulated = {};
    accumulated_ = 0;
    replicas().each_stage([](auto& stage) { stage.statistics().clear(); });
  }

  /// Forward only, without dropout. Throws `error` if the loss is not finite.
  GPIPE_COLD step_result evaluate(const batch& data) {
    input_.require_loss();
    calls().together([&] {
      choose(data);
      input().begin(detail::pass_kind::evaluate, data);
    });
    watched_now().drop_rows();
    passes_.run();
    passes_.sum_partials();
    if (!detail::is_finite(decision_.result.found.loss)) passes_.throw_nonfinite(accumulated_);
    watched_now().keep_rows(step_, all_);
    return decision_.result.found;
  }

  /// Runs `call` with the moving averages in place of the parameters.
  template <class Call>
  auto with_averages(Call&& call) {
    usable();
    if (!plan_.options.average_weights)
      detail::throw_error({"average_weights is 0: there is no average of the weights"},
                          {"choose .average_weights = 0.999 in the options of the training"});
    struct exchanged {
      executor& in;
      explicit exchanged(executor& run) : in(run) { exchange(); }
      ~exchanged() {
        if (!in.stuck()) exchange();
      }
      void exchange() const {
        in.replicas().each_stage([](auto& stage) { stage.exchange_averages(); });
        in.refresh();
        in.passes_.gather_before_next();
      }
    } const scope(*this);
    return call();
  }

  /// Forward only, without dropout, up to the loss: copies the input of the loss to the rows of `into` from `first` on.
  /// A loss that makes its input, or layers that make columns of it, run `predict` for that.
  /// Fields that only the loss reads may be missing. The rows have the size of `predictions` for this batch.
  GPIPE_COLD void predict(const batch& data, tensor_rows& into, int first) {
    input_.require_loss();
    choose(data);
    if (!shorter_.empty()) require_size(into);
    // A kernel that returns after the deadline still writes to the rows: then they stay here, and `into` has none.
    const struct lent {
      executor& to;
      tensor_rows& from;
      lent(executor& run, tensor_rows& rows) : to(run), from(rows) { std::swap(to.predicted_, from); }
      ~lent() {
        if (!to.stuck()) std::swap(to.predicted_, from);
      }
    } rows(*this, into);
    calls().together(
        [&] { input().begin(detail::pass_kind::predict, data, {.samples_before = first, .predicted = &predicted_}); });
    watched_now().drop_rows();
    passes_.run();
    watched_now().keep_rows(step_, all_);
    detail::share_predicted(all_, net_now(), plan_, step_, predicted_, first);
  }
  /// Rows for the input of the loss, with this number of samples, for the length that runs.
  GPIPE_COLD tensor_rows predictions(int samples) const {
    input_.require_loss();
    tensor_rows rows;
    for (const detail::edge_part& part : detail::predicted_parts(net_now())) rows.add(part, samples);
    rows.resize(samples);
    return rows;
  }

  /// Makes the plan of the batch's length the one that runs, until a batch has another. Throws `error` if there is
  /// none.
  GPIPE_COLD const step_plan& choose(const batch& data) {
    usable();
    if (shorter_.empty()) return plan_;
    use(detail::length_of(nets_, data));
    return plan_now();
  }
  /// The plan that runs: of the last batch's length.
  const step_plan& plan_now() const { return now_ == 0 ? plan_ : shorter_[now_ - 1].plan; }
  /// The plans of shorter lengths, the shortest first.
  const std::vector<detail::length_plan<context>>& shorter() const { return shorter_; }

  /// A frozen layer's parameters and their moments do not change from the next call on, nor in other layers that are
  /// tied to them. Their gradient is zero, and no norm counts it.
  GPIPE_COLD void freeze(int layer, bool frozen) {
    calls().agree_to_freeze(layer, frozen);
    ++step_.changes;  // also if the layer has no parameters
    for (int mine = 0; mine < net_.type_of(layer).parameter_count; ++mine) freeze_here({layer, mine}, frozen);
  }
  /// The same for one parameter, in this process alone: every process calls it.
  GPIPE_COLD void freeze_here(const detail::named_array& which, bool frozen) {
    ++step_.changes;
    const detail::named_array owner = net_.owner(which);
    for (int l = 0; l < net_.layer_count; ++l)
      for (int p = 0; p < net_.type_of(l).parameter_count; ++p)
        if (net_.owner(l, p) == owner) each_copy_of(stage_of(l), [&](auto& stage) { stage.freeze(l, p, frozen); });
  }

  /// Copies a layer's outputs, and their gradients if there are any, out of every call from now on, or ends that.
  GPIPE_COLD void watch(int layer, bool watched) {
    calls().agree_to_watch(layer, watched);
    ++step_.changes;
    for (std::size_t k = 0; k < passes_.plans(); ++k) {
      detail::watched_rows* const rows = watched_of(k).watch(layer, watched);
      usable().replicas(k).each_copy_of(stage_of(layer), [&](auto& stage) { stage.watch(layer, rows); });
    }
  }
  /// The rows of the last call, without samples if it failed. Null if the layer is not watched.
  const detail::watched_rows* watched(int layer) const { return usable(), watched_now().watched(layer); }

  const gpipe::digest& digest() const { return usable(), watched_.digest(); }

  /// Times every layer in this number of steps over the batch. The steps are not applied: only the gradients change.
  GPIPE_COLD measured_profile profile_layers(const batch& data, int steps) {
    usable();
    input_.require_training();
    if (accumulated_ > 0)
      detail::throw_error({"the gradients of ", accumulated_, " accumulated calls wait for a step"},
                          {"take the step, or call discard_accumulated"});
    if (steps < 1) detail::throw_error({"steps is ", steps}, {"choose at least 1"});
    struct timing {
      executor& timed;
      explicit timing(executor& run) : timed(run) { timed.time_layers(true); }
      ~timing() { timed.time_layers(timed.options_.layer_times); }
    } const scope(*this);
    for (int i = 0; i < steps; ++i) {
      calls().together([&] {
        choose(data);
        input().begin(detail::pass_kind::measure, data);
      });
      passes_.run();
    }
    return layer_profile();
  }

  /// The time of each layer for a full micro-batch: medians of the newest times, of the length that ran last.
  GPIPE_COLD measured_profile layer_profile() const {
    usable();
    const step_plan& plan = plan_now();
    measured_profile found{{}, plan.options.micro_batch_size};
    for (int s = 0; s < plan.stages(); ++s) {
      if (here_.has_stage(0, s)) detail::append_measured(plan, replicas_now().at(0).stage(s), found);
      detail::share_measured(net_, plan, all_, s, found);
    }
    detail::require_measured(plan, found);  // when all processes have all times, so that all throw
    return found;
  }

  /// Whether a kernel has not returned within the deadline. From then on every call that needs the workers or their
  /// memory throws the same error.
  bool stuck() const noexcept { return passes_.stuck(); }

  const network& net() const { return net_; }
  const step_plan& plan() const { return plan_; }
  /// The group of each parameter.
  const detail::parameter_groups& groups() const { return groups_; }
  /// Steps taken; a step that failed does not count.
  std::uint64_t steps() const { return step_.step; }
  const detail::bound_stage<Device>& stage(int s, int replica = 0) const { return replicas().at(replica).stage(s); }

  /// Copies an array out of the training: a parameter, its gradient (a sum over the last step's samples), what the
  /// optimizer keeps for it, or state. All replicas have the same, but while calls wait for a step only the first has
  /// the sums of gradients.
  GPIPE_COLD void read(const array_location& from, void* into, int replica = 0) const {
    usable();
    parameters_.read(from, into, parameters_.holder_of(from, replica, accumulated_ > 0), all_);
  }
  /// Sets an array, and recomputes the buffers that are derived from parameters. Parameters are written to their moving
  /// average, too.
  GPIPE_COLD void write(const array_location& into, const void* from) {
    calls().agree_to_write(into, from);
    first_values_ = false;
    parameters_.write(into, from);
    if (into.kind == memory_kind::parameters && plan_.options.average_weights)
      parameters_.write(into.in(memory_kind::averages), from);
    refresh();
  }
  /// The same for all parameters and the state of all layers, in the order of `each_value`.
  GPIPE_COLD void write_values(const std::byte* from) {
    first_values_ = false;
    detail::each_value(net_, [&](const array_location& value) {
      calls().agree_to_write(value, from);
      parameters_.write(value, from);
      from += value.bytes;
    });
    refresh();
  }

  /// The parameters and the state that this process has, in the order of `each_value`, without other processes: a
  /// model of many stages need not fit into one process.
  GPIPE_COLD void read_own_values(std::vector<std::byte>& into) const {
    usable();
    into.resize(own_value_bytes());
    std::byte* at = into.data();
    each_own_value([&](const array_location& value) { parameters_.read_own(value, at), at += value.bytes; });
  }
  GPIPE_COLD void write_own_values(const std::byte* from) {
    usable();
    each_own_value([&](const array_location& value) { parameters_.write(value, from), from += value.bytes; });
    passes_.gather_before_next();
    refresh();
  }
  GPIPE_COLD std::size_t own_value_bytes() const {
    std::size_t bytes = 0;
    each_own_value([&](const array_location& value) { bytes += value.bytes; });
    return bytes;
  }

  /// If replicas keep shares, brings all that others have updated to this process. Every process calls it.
  GPIPE_COLD void gather() { usable(), passes_.gather(); }
  /// Whether this process has a layer's memory, in any replica.
  bool has_here(int layer) const { return parameters_.is_here(layer); }
  /// The replica that updates a layer, if replicas keep shares; else the first.
  int owner_of(int layer) const { return parameters_.owner_of(layer); }
  /// As `read` and `write`, in this process alone: every process calls them for what it has, in any order. The buffers
  /// derived from parameters follow in `restore`.
  GPIPE_COLD void read_here(const array_location& from, void* into) const {
    usable();
    parameters_.read_own(from, into);
  }
  GPIPE_COLD void write_here(const array_location& into, const void* from) {
    usable();
    first_values_ = false;
    parameters_.write(into, from);
  }
  /// Whether parameters, state and what the optimizer keeps are as the constructor has set them.
  bool has_first_values() const { return first_values_; }
  /// Sets them so again, in this process alone.
  GPIPE_COLD void set_first_values() {
    const detail::default_float_environment exact;
    replicas().each_stage([this](auto& stage) { stage.begin_moments(rule_); });
    parameters_.initialize(options_.seed);
    derived_for_ = 0;
    if (plan_.options.average_weights) replicas().each_stage([](auto& stage) { stage.copy_to_averages(); });
    first_values_ = true;
  }
  /// Goes on from this number of steps and seed, with the parameters that have been written. Drops what was
  /// accumulated.
  GPIPE_COLD void restore(std::uint64_t steps, std::uint64_t seed) {
    usable();
    discard_accumulated();
    step_.step = steps;
    step_.seed = seed;
    checked_rate_ = -1;
    ++step_.changes;
    refresh();
  }
  std::uint64_t seed() const { return step_.seed; }
  const training_options& options() const { return options_; }
  /// The rank of the process that saves a layer.
  int rank_of(int layer) const { return here_.rank_of_stage(owner_of(layer), stage_of(layer)); }
  /// The rank of this process in its job.
  int rank() const { return options_.job != nullptr ? options_.job->rank() : 0; }
  /// The calls that all processes of the job make together.
  const detail::collective_calls& together() const { return calls(); }

  /// Addresses in the memory of the layer's stage, or of that which owns the layer's first parameter. The host may read
  /// there only if the memory is the host's.
  std::byte* parameters(int layer) const { return of_parameters(memory_kind::parameters, layer, 0); }
  std::byte* gradients(int layer) const { return of_parameters(memory_kind::gradients, layer, 0); }
  std::byte* moments(int layer, int i) const { return of_parameters(memory_kind::moments, layer, i); }
  std::byte* state(int layer) const { return usable(), parameters_.address({memory_kind::state, layer}, 0); }

  /// Each stage's times in steps, replica after replica, and each worker's events, since the last `reset_report`. If
  /// the plan only runs forward, every evaluation is a step.
  GPIPE_COLD const std::vector<stage_report>& report() const {
    usable();
    report_.share_stages(all_);
    return report_.stages();
  }
  GPIPE_COLD const std::vector<recorder>& trace() const {
    usable();
    report_.share_workers(all_);
    return report_.workers();
  }
  void reset_report() { usable(), report_.reset(); }
  void reset_trace() { usable(), report_.reset_events(); }

 private:
  // The plan, after all checks that come before the first allocation and the first thread.
  GPIPE_COLD const step_plan& admitted() const {
    detail::require_optimizer(plan_.options, rule_.moments(), rule_.memory(), options_);
    detail::preflight<Device>(net_, plan_, rule_.trial(), options_, here_);
    return plan_;
  }
  const detail::pass_runner<Device>& usable() const {
    passes_.require_not_stuck();
    return passes_;
  }
  const detail::replica_list<Device>& replicas() const { return usable().replicas(); }
  const detail::replica_list<Device>& replicas_now() const { return usable().replicas(now_); }
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

  std::byte* of_parameters(memory_kind kind, int layer, int i) const {
    const detail::named_array first = net_.owner(layer, 0);
    const array_location at{kind, first.layer_index, i,
                            net_.own_bytes(first.layer_index, first.index) + net_.owner_offset(layer, 0)};
    return usable(), parameters_.address(at, parameters_.holder_of(at, 0, accumulated_ > 0));
  }

  void time_layers(bool on) {
    each_stage([on](auto& stage) { stage.time_layers(on); });
  }

  // The network of the plan that runs.
  const network& net_now() const { return *nets_[now_]; }

  // What a length has for itself: its rows differ in size.
  struct of_length {
    detail::watched_activations watched;
    detail::step_input input;
  };
  detail::watched_activations& watched_of(std::size_t plan) {
    return plan == 0 ? watched_ : of_shorter_[plan - 1].watched;
  }
  detail::watched_activations& watched_now() { return watched_of(now_); }
  const detail::watched_activations& watched_now() const {
    return now_ == 0 ? watched_ : of_shorter_[now_ - 1].watched;
  }
  detail::step_input& input() { return now_ == 0 ? input_ : of_shorter_[now_ - 1].input; }

  GPIPE_COLD static step_plan with_largest_arena(step_plan longest,
                                                 const std::vector<detail::length_plan<context>>& shorter) {
    if (!shorter.empty()) detail::share_arenas(longest, shorter);
    return longest;
  }
  GPIPE_COLD void add_length(const detail::length_plan<context>& it) {
    nets_.push_back(it.net);
    passes_.add(*it.net, it.plan, it.kernels,
                [this](int replica, int worker) { return report_.of_worker(replica, worker); });
    of_shorter_.push_back(of_length{{*it.net, it.plan, options_.digest_calls, &watched_.digest()},
                                    {*it.net, it.plan, step_, {here_.layers_here(net_.layer_count), -1}}});
  }
  GPIPE_COLD void use(std::size_t plan) {
    if (plan == now_ && plan == derived_for_) return;
    passes_.use(plan);
    now_ = plan;
    if (plan == derived_for_) return;
    derived_for_ = plan;
    const bool* const anew = shorter_.front().derives_anew;
    replicas_now().each_stage([anew](auto& stage) { stage.refresh(anew); });
    replicas_now().each_stage([](auto& stage) { stage.context().finish(); });
  }
  // Recomputes all buffers that are derived from parameters, as those of the longest length.
  GPIPE_COLD void refresh() {
    parameters_.refresh();
    derived_for_ = 0;
  }

  GPIPE_COLD void require_size(const tensor_rows& into) const {
    const std::vector<detail::edge_part> parts = detail::predicted_parts(net_now());
    for (int t = 0; t < into.tensors(); ++t)
      if (const std::size_t bytes = parts[detail::index(t)].size * detail::bytes_of(parts[detail::index(t)].type);
          into.row_bytes(t) != bytes)
        detail::throw_error({"predict: a batch has rows of another length than those before it"},
                            {"predict the batches of each length by a call of their own"});
  }

  // Runs the part of train and accumulate that may fail after the batch was checked.
  template <class Call>
  void attempt(Call&& call) {
    watched_now().open(step_);
    try {
      call();
    } catch (...) {
      rethrow_without_accumulated();
    }
    watched_now().close(step_, accumulated_, all_);
  }
  // In a handler: gradients are summed in place, so those of earlier calls are lost, too. The error says so.
  [[noreturn]] GPIPE_COLD void rethrow_without_accumulated() {
    const int lost = accumulated_;
    if (stuck()) throw;
    discard_accumulated();
    if (lost == 0) throw;
    try {
      throw;
    } catch (const error& cause) {
      detail::throw_instead(
          error(cause.wrong(),
                detail::concat({cause.remedy(), cause.remedy().empty() ? "" : "; ", "the gradients of ", lost,
                                " accumulated ", lost == 1 ? "call" : "calls", " are dropped: accumulate again"}),
                cause.where()));
    }
  }

  const network& net_;
  std::vector<detail::length_plan<context>> shorter_;
  step_plan plan_;  // of the longest length
  detail::optimizer_update<context> rule_;
  training_options options_;
  detail::parameter_groups groups_;
  detail::rank_layout here_;
  detail::broadcast all_;
  mutable detail::run_report report_;
  detail::watched_activations watched_;
  detail::step_context step_;
  detail::step_input input_;
  detail::commit_decision decision_;
  int accumulated_ = 0;
  bool first_values_ = false;
  tensor_rows predicted_;                    // while `predict` runs
  double checked_rate_ = -1;                 // the largest rate for which an update is known to stay finite
  std::vector<const network*> nets_{&net_};  // the longest length's, then those of `shorter_`
  std::deque<of_length> of_shorter_;
  std::size_t now_ = 0;          // the plan that runs: 0 is the longest length's, then `shorter_`
  std::size_t derived_for_ = 0;  // the plan for which layers have derived their buffers
  detail::pass_runner<Device> passes_;
  detail::parameter_access<Device> parameters_;
};

}  // namespace gpipe
