#pragma once

#include <limits>

#include <gpipe/core/config.hpp>
#include <gpipe/runtime/executor.hpp>

namespace gpipe {

GPIPE_INLINE GPIPE_COLD executor::executor(const detail::device_functions& device, const network& net,
                                           const detail::kernel_row* kernels, step_plan plan,
                                           detail::optimizer_update rule, training_options options,
                                           std::vector<detail::length_plan> shorter)
    : device_(device),
      net_(net),
      shorter_(std::move(shorter)),
      plan_(with_largest_arena(std::move(plan), shorter_)),
      rule_(std::move(rule)),
      options_(std::move(options)),
      groups_(net_, options_.groups),
      ranks_(plan_, options_.job),
      processes_(plan_, options_.job),
      report_{net_, admitted(), ranks_.count(), options_.trace_events,  // in this order: a job admits, then counts
              options_.job == nullptr ? host_cores{} : options_.job->on_this_host()},
      lengths_(net_, plan_, step_, options_.digest_calls,
               {ranks_.layers_here(net_.layer_count), options_.job == nullptr ? -1 : rank()}),
      passes_(device_, net_, plan_, rule_, options_, ranks_, step_, decision_, report_.stages(),
              detail::wait_limits_of(ranks_.count(), options_.deadline)),
      parameters_(net_, plan_, ranks_, replicas()) {
  const auto recorder_of = [this](int replica, int worker) { return report_.of_worker(replica, worker); };
  passes_.connect(kernels, recorder_of);
  for (const detail::length_plan& length : shorter_) {
    passes_.add(*length.net, length.plan, length.kernels, recorder_of);
    lengths_.add(*length.net, length.plan);
  }
  time_layers(options_.layer_times);
  if (options_.digest_calls > 0) each_stage([this](auto& stage) { stage.record_in(lengths_.digest()); });
  step_.seed = options_.seed;
  for (std::size_t k = 0; k < passes_.plans(); ++k)
    passes_.replicas(k).each([this](auto& replica) { replica.begin(step_); });
  rule_.use(groups_);
  each_stage([this](auto& stage) { stage.begin_updates(groups_); });
  set_first_values();
}

GPIPE_INLINE GPIPE_COLD executor::~executor() {
  if (!stuck()) return;
  std::fputs("gpipe: an executor is destroyed while a kernel still runs in it; hold it by executor_owner\n", stderr);
  std::abort();
}

GPIPE_INLINE GPIPE_COLD step_result executor::train(const batch& data, double rate, double max_norm) {
  lengths_.longest().input.require_training();
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

GPIPE_INLINE GPIPE_COLD step_result executor::accumulate(const batch& data) {
  lengths_.longest().input.require_training();
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

GPIPE_INLINE void executor::discard_accumulated() {
  decision_.terms.accumulated = {};
  accumulated_ = 0;
  replicas().each_stage([](auto& stage) { stage.statistics().clear(); });
}

GPIPE_INLINE GPIPE_COLD step_result executor::evaluate(const batch& data) {
  lengths_.longest().input.require_loss();
  calls().together([&] {
    choose(data);
    input().begin(detail::pass_kind::evaluate, data);
  });
  watched_now().drop_rows();
  passes_.run();
  passes_.sum_partials();
  if (!detail::is_finite(decision_.result.found.loss)) passes_.throw_nonfinite(accumulated_);
  watched_now().keep_rows(step_, processes_);
  return decision_.result.found;
}

GPIPE_INLINE GPIPE_COLD void executor::predict(const batch& data, tensor_rows& output, int first) {
  lengths_.longest().input.require_loss();
  choose(data);
  if (lengths_.several()) require_size(output);
  // A kernel that returns after the deadline still writes to the rows: then they stay here, and `output` has none.
  const struct lent {
    executor& borrower;
    tensor_rows& lent_rows;
    lent(executor& run, tensor_rows& rows) : borrower(run), lent_rows(rows) {
      std::swap(borrower.predicted_, lent_rows);
    }
    ~lent() {
      if (!borrower.stuck()) std::swap(borrower.predicted_, lent_rows);
    }
  } rows(*this, output);
  calls().together(
      [&] { input().begin(detail::pass_kind::predict, data, {.samples_before = first, .predicted = &predicted_}); });
  watched_now().drop_rows();
  passes_.run();
  watched_now().keep_rows(step_, processes_);
  detail::share_predicted(processes_, net_now(), plan_, step_, predicted_, first);
}

GPIPE_INLINE GPIPE_COLD tensor_rows executor::predictions(int samples) const {
  lengths_.longest().input.require_loss();
  tensor_rows rows;
  for (const detail::edge_part& part : detail::predicted_parts(net_now())) rows.add(part, samples);
  rows.resize(samples);
  return rows;
}

GPIPE_INLINE GPIPE_COLD const step_plan& executor::choose(const batch& data) {
  usable();
  if (!lengths_.several()) return plan_;
  lengths_.choose(data);
  passes_.use(lengths_.number());
  if (lengths_.derives_again()) {
    const bool* const derives_anew = shorter_.front().derives_anew;
    replicas_now().each_stage([derives_anew](auto& stage) { stage.refresh(derives_anew); });
    replicas_now().each_stage([](auto& stage) { stage.context().finish(); });
  }
  return plan_now();
}

GPIPE_INLINE GPIPE_COLD void executor::freeze(int layer, bool frozen) {
  calls().agree_to_freeze(layer, frozen);
  ++step_.changes;  // also if the layer has no parameters
  for (int p = 0; p < net_.type_of(layer).parameter_count; ++p) freeze_here({layer, p}, frozen);
}

GPIPE_INLINE GPIPE_COLD void executor::freeze_here(const detail::named_array& parameter, bool frozen) {
  ++step_.changes;
  const detail::named_array owner = net_.owner(parameter);
  for (int l = 0; l < net_.layer_count; ++l)
    for (int p = 0; p < net_.type_of(l).parameter_count; ++p)
      if (net_.owner(l, p) == owner) each_copy_of(stage_of(l), [&](auto& stage) { stage.freeze(l, p, frozen); });
}

GPIPE_INLINE GPIPE_COLD void executor::watch(int layer, bool watched) {
  calls().agree_to_watch(layer, watched);
  ++step_.changes;
  for (std::size_t k = 0; k < passes_.plans(); ++k) {
    detail::watched_rows* const rows = lengths_.at(k).watched.watch(layer, watched);
    usable().replicas(k).each_copy_of(stage_of(layer), [&](auto& stage) { stage.watch(layer, rows); });
  }
}

GPIPE_INLINE GPIPE_COLD measured_profile executor::profile_layers(const batch& data, int steps) {
  usable();
  lengths_.longest().input.require_training();
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

GPIPE_INLINE GPIPE_COLD measured_profile executor::layer_profile() const {
  usable();
  const step_plan& plan = plan_now();
  measured_profile found{{}, plan.options.micro_batch_size};
  for (int s = 0; s < plan.stages(); ++s) {
    if (ranks_.has_stage(0, s)) detail::append_measured(plan, replicas_now().at(0).stage(s), found);
    detail::share_measured(net_, plan, processes_, s, found);
  }
  detail::require_measured(plan, found);  // when all processes have all times, so that all throw
  return found;
}

GPIPE_INLINE GPIPE_COLD void executor::read(const array_location& array, void* target, int replica) const {
  usable();
  parameters_.read(array, target, parameters_.holder_of(array, replica, accumulated_ > 0), processes_);
}

GPIPE_INLINE GPIPE_COLD void executor::write(const array_location& array, const void* values) {
  calls().agree_to_write(array, values);
  first_values_ = false;
  parameters_.write(array, values);
  if (array.kind == memory_kind::parameters && plan_.options.average_weights)
    parameters_.write(array.in(memory_kind::averages), values);
  refresh();
}

GPIPE_INLINE GPIPE_COLD void executor::write_values(const std::byte* values) {
  first_values_ = false;
  detail::each_value(net_, [&](const array_location& value) {
    calls().agree_to_write(value, values);
    parameters_.write(value, values);
    values += value.bytes;
  });
  refresh();
}

GPIPE_INLINE GPIPE_COLD void executor::read_own_values(std::vector<std::byte>& target) const {
  usable();
  target.resize(own_value_bytes());
  std::byte* position = target.data();
  each_own_value([&](const array_location& value) { parameters_.read_own(value, position), position += value.bytes; });
}

GPIPE_INLINE GPIPE_COLD void executor::write_own_values(const std::byte* values) {
  usable();
  each_own_value([&](const array_location& value) { parameters_.write(value, values), values += value.bytes; });
  passes_.gather_before_next();
  refresh();
}

GPIPE_INLINE GPIPE_COLD std::size_t executor::own_value_bytes() const {
  std::size_t bytes = 0;
  each_own_value([&](const array_location& value) { bytes += value.bytes; });
  return bytes;
}

GPIPE_INLINE GPIPE_COLD void executor::read_here(const array_location& array, void* target) const {
  usable();
  parameters_.read_own(array, target);
}

GPIPE_INLINE GPIPE_COLD void executor::write_here(const array_location& array, const void* values) {
  usable();
  first_values_ = false;
  parameters_.write(array, values);
}

GPIPE_INLINE GPIPE_COLD void executor::set_first_values() {
  const detail::default_float_environment exact;
  replicas().each_stage([this](auto& stage) { stage.begin_moments(rule_); });
  parameters_.initialize(options_.seed);
  lengths_.derived_for_longest();
  if (plan_.options.average_weights) replicas().each_stage([](auto& stage) { stage.copy_to_averages(); });
  first_values_ = true;
}

GPIPE_INLINE GPIPE_COLD void executor::restore(std::uint64_t steps, std::uint64_t seed) {
  usable();
  discard_accumulated();
  step_.step = steps;
  step_.seed = seed;
  checked_rate_ = -1;
  ++step_.changes;
  refresh();
}

GPIPE_INLINE GPIPE_COLD const std::vector<stage_report>& executor::report() const {
  usable();
  report_.share_stages(processes_);
  return report_.stages();
}

GPIPE_INLINE GPIPE_COLD const std::vector<recorder>& executor::trace() const {
  usable();
  report_.share_workers(processes_);
  return report_.workers();
}

GPIPE_INLINE GPIPE_COLD const step_plan& executor::admitted() const {
  if (rule_.context() != device_.context)
    detail::throw_error({"the optimizer's update is that of another device"}, {"make it for the device's context"});
  detail::require_optimizer(plan_.options, rule_.moments(), rule_.memory(), options_);
  detail::preflight(device_, net_, plan_, rule_.trial(), options_, ranks_);
  return plan_;
}

GPIPE_INLINE const detail::pass_runner& executor::usable() const {
  passes_.require_not_stuck();
  return passes_;
}

GPIPE_INLINE std::byte* executor::of_parameters(memory_kind kind, int layer, int i) const {
  const detail::named_array first = net_.owner(layer, 0);
  const array_location array{kind, first.layer_index, i,
                             net_.own_bytes(first.layer_index, first.index) + net_.owner_offset(layer, 0)};
  return usable(), parameters_.address(array, parameters_.holder_of(array, 0, accumulated_ > 0));
}

GPIPE_INLINE void executor::time_layers(bool enabled) {
  each_stage([enabled](auto& stage) { stage.time_layers(enabled); });
}

GPIPE_INLINE GPIPE_COLD step_plan executor::with_largest_arena(step_plan longest,
                                                               const std::vector<detail::length_plan>& shorter) {
  if (!shorter.empty()) detail::share_arenas(longest, shorter);
  return longest;
}

GPIPE_INLINE GPIPE_COLD void executor::refresh() {
  parameters_.refresh();
  lengths_.derived_for_longest();
}

GPIPE_INLINE GPIPE_COLD void executor::require_size(const tensor_rows& rows) const {
  const std::vector<detail::edge_part> parts = detail::predicted_parts(net_now());
  for (int t = 0; t < rows.tensors(); ++t)
    if (const std::size_t bytes = parts[detail::index(t)].size * detail::bytes_of(parts[detail::index(t)].type);
        rows.row_bytes(t) != bytes)
      detail::throw_error({"predict: a batch has rows of another length than those before it"},
                          {"predict the batches of each length by a call of their own"});
}

GPIPE_INLINE GPIPE_COLD void executor::rethrow_without_accumulated() {
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

}  // namespace gpipe
