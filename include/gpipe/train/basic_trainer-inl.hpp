#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include <gpipe/core/descriptions/parameter_group.hpp>
#include <gpipe/core/hash.hpp>
#include <gpipe/core/numbers/double_bits.hpp>
#include <gpipe/core/numbers/multiply_add.hpp>
#include <gpipe/core/text/quantity.hpp>
#include <gpipe/plan/memory/memory_kind.hpp>
#include <gpipe/plan/options/plan_options.hpp>
#include <gpipe/runtime/executor.hpp>
#include <gpipe/runtime/length_plan.hpp>
#include <gpipe/train/basic_trainer.hpp>
#include <gpipe/train/model_array-inl.hpp>
#include <gpipe/train/model_array.hpp>

// The definitions of basic_trainer's members. trainer.hpp includes them if the program is header-only. Else the
// compiled library has them, for all devices.

namespace gpipe {

namespace detail {

GPIPE_INLINE void keep_stuck::operator()(executor* run) const {
  if (!run->stuck()) delete run;
}

/// The plan of a training: the plan of the source, or another one if the training has its own cut or a job. The plans
/// of several lengths keep the same copies at the same bytes, whatever each recomputes and however many rows it has.
GPIPE_COLD inline step_plan plan_of(const network& net, const plan_source& source, int moments,
                                    const tensor_rule_memory* rule, const training_options& settings,
                                    bool packs_on_the_way, bool several_lengths) {
  plan_options options = source.options;
  options.packs_on_the_way = options.packs_on_the_way && packs_on_the_way && !several_lengths;
  if (several_lengths && options.limits_memory() && !options.share_packed_weights) options.keep_packed_weights = true;
  options.optimizer_moments = moments;
  options.tensor_rule = rule;
  options.average_weights = settings.average_weights > 0;
  const int ranks = settings.job != nullptr ? settings.job->ranks() : 0;
  if (source.made != nullptr) return source.made(net, options, settings.cut.first(), ranks);
  if (ranks > 0)
    return settings.job.set_up().plan(net, options, settings.cut.empty() ? source.cut : settings.cut.first(), ranks);
  if (!settings.cut.empty()) return settings.cut.plan()(net, options, settings.cut.first(), 0);
  return source.constant(net, options);
}

/// The plans of the shorter lengths. They have the options, the cut and the workers of the longest length's plan, and
/// as many tokens in a micro-batch.
inline GPIPE_COLD std::vector<length_plan> plans_of(const shorter_lengths& shorter, const step_plan& longest) {
  std::vector<length_plan> plans;
  if (shorter.lengths.empty()) return plans;
  plan_options options = longest.options;
  options.workers = longest.workers();
  options.profile = {};  // it measured the longest length's layers
  for (const auto& length : shorter.lengths) {
    const std::int64_t tokens = std::int64_t{longest.options.micro_batch_size} * shorter.longest;
    options.micro_batch_size = static_cast<int>((std::min)(
        tokens / length.tokens, std::int64_t{(std::numeric_limits<int>::max)() / options.all_micro_batches()}));
    const std::span<const int> first(longest.first.data() + 1, index(longest.stages() - 1));
    plans.push_back({length.net, length.kernels, shorter.made(*length.net, options, first, 0), shorter.derives_anew});
  }
  return plans;
}

inline GPIPE_COLD executor* make_executor(const device_functions& device, const network& net, const kernel_row* kernels,
                                          const plan_source& source, const optimizer_update& update,
                                          const training_options& settings, const shorter_lengths& shorter) {
  if (settings.job != nullptr && !shorter.lengths.empty())
    throw_error({"the training has a job, and its model ", shorter.lengths.size() + 1, " lengths"},
                {"choose .job = nullptr, or the model of one length"});
  step_plan plan = plan_of(net, source, update.moments(), update.memory(), settings,
                           /*packs_on_the_way=*/!device.has_graphs(), /*several_lengths=*/!shorter.lengths.empty());
  auto shorter_plans = plans_of(shorter, plan);
  return new executor(device, net, kernels, std::move(plan), update, settings, std::move(shorter_plans));
}

/// Calls use(batch, its first sample) for every batch of an epoch in order. Throws if the source does not give
/// `samples()` samples.
template <class Use>
void for_each_batch(const data_source& data, int size, Use&& use) {
  const int samples = data.samples();
  const auto stream = opened(data, {.size = size});
  const bool sized_by_source = data.own().count > 0;
  const long count = batches_of(data, size);
  int before = 0;
  for (long number = 0; number < count; ++number) {
    const batch& next = next_batch(*stream, number, samples, sized_by_source ? 0 : size);
    use(next, before);
    before += next.samples();
  }
  if (sized_by_source) require_samples(before, samples);
  require_end(*stream, samples);
}

/// The learning rate, if it is 0 or more; else throws.
GPIPE_COLD inline double checked_rate(double rate) {
  if (!(rate >= 0) || is_nan(rate)) throw_error({"the learning rate is ", significant(rate, 6)}, {"choose 0 or more"});
  return rate;
}

/// The schedule, called once, so that an invalid setting is an error before the first step.
GPIPE_COLD inline const rate_schedule& checked_schedule(const rate_schedule& schedule) {
  rate_factor(schedule, 0);
  return schedule;
}

inline GPIPE_COLD const watched_rows& watched_in(const executor& run, int layer_index) {
  if (const auto* rows = run.watched(known_layer(run.net(), layer_index))) return *rows;
  throw_error({"the layer is not watched"}, {"call watch(", layer_index, ") before the step"},
              location_of(run.net(), layer_index));
}

}  // namespace detail

GPIPE_INLINE GPIPE_COLD basic_trainer::basic_trainer(const detail::device_functions& device, const network& net,
                                                     const detail::kernel_row* kernels, const detail::plan_source& plan,
                                                     const detail::optimizer_update& update, double learning_rate,
                                                     const training_options& settings,
                                                     const detail::shorter_lengths& shorter)
    : learning_rate_(detail::checked_rate(learning_rate)),
      max_grad_norm_(settings.max_grad_norm),
      schedule_(detail::checked_schedule(settings.learning_rate_schedule)),
      frozen_(detail::index(net.layer_count)),
      optimizer_name_(update.name()),
      optimizer_trial_(update.trial()),
      executor_(detail::make_executor(device, net, kernels, plan, update, settings, shorter)) {
  for (int l = 0; l < net.layer_count; ++l)
    frozen_[detail::index(l)].resize(detail::index(net.type_of(l).parameter_count));
}

GPIPE_INLINE GPIPE_COLD basic_trainer::~basic_trainer() {
  saving_.reset();  // a background save ends before the executor
}
GPIPE_INLINE basic_trainer::basic_trainer(basic_trainer&&) noexcept = default;
GPIPE_INLINE basic_trainer& basic_trainer::operator=(basic_trainer&&) noexcept = default;

GPIPE_INLINE step_result basic_trainer::step(const batch& data, double rate) {
  const step_result found = executor_->train(data, detail::checked_rate(rate), max_grad_norm_);
  for (std::size_t i = 0; i < hooks_.size(); ++i) (*hooks_[i])(found, executor_->steps());
  return found;
}

GPIPE_INLINE step_result basic_trainer::accumulate(const batch& data) { return executor_->accumulate(data); }
GPIPE_INLINE int basic_trainer::accumulated() const { return executor_->accumulated(); }
GPIPE_INLINE void basic_trainer::discard_accumulated() { executor_->discard_accumulated(); }

GPIPE_INLINE GPIPE_COLD void basic_trainer::on_step(step_hook hook) {
  hooks_.push_back(std::make_unique<step_hook>(std::move(hook)));
}

GPIPE_INLINE measured_profile basic_trainer::profile_layers(const batch& data, int steps) {
  return executor_->profile_layers(data, steps);
}
GPIPE_INLINE measured_profile basic_trainer::layer_profile() const { return executor_->layer_profile(); }

GPIPE_INLINE double basic_trainer::rate() const {
  return learning_rate_ * detail::rate_factor(schedule_, executor_->steps());
}

GPIPE_INLINE GPIPE_COLD void basic_trainer::set_frozen(int first, int last, bool frozen) {
  const network& net = executor_->net();
  if (last < first)
    detail::throw_error({"the layers [", first, ", ", last, ") end before they begin"},
                        {"give the first before the last"});
  if (last > first) detail::known_layer(net, first), detail::known_layer(net, last - 1);
  for (int l = first; l < last; ++l) {
    executor_->freeze(l, frozen);
    for (int p = 0; p < net.type_of(l).parameter_count; ++p) {
      const detail::named_array owner = net.owner(l, p);
      frozen_[detail::index(owner.layer_index)][detail::index(owner.index)] = frozen;
    }
  }
}

GPIPE_INLINE step_result basic_trainer::evaluate(const batch& data, weights choice) {
  if (choice == weights::averaged) return executor_->with_averages([&] { return executor_->evaluate(data); });
  return executor_->evaluate(data);
}
GPIPE_INLINE GPIPE_COLD step_result basic_trainer::evaluate(const data_source& data, weights choice) {
  if (choice == weights::averaged) return executor_->with_averages([&] { return evaluate(data); });
  step_result total;
  detail::for_each_batch(data, plan().max_batch(), [&](const batch& part, int) {
    step_result part_result = evaluate(part);
    // The mean of the main loss; auxiliary losses are summed separately.
    total.loss = detail::multiply_add(
        part_result.auxiliary_losses().empty() ? part_result.loss : part_result.loss_named(main_loss).loss,
        part_result.weight, total.loss);
    for (const loss_result& loss : part_result.auxiliary_losses())
      detail::result_source::auxiliary(total, *loss.row()).add(loss);
    total.weight += part_result.weight;
    total.correct += part_result.correct;
    total.samples += part_result.samples;
    detail::result_source::of(total) = detail::result_source::of(part_result);
    for (int p = 0; p < max_metrics; ++p) total.sums[p] += part_result.sums[p];
  });
  if (!(total.weight > 0) || detail::is_nan(total.weight))
    detail::throw_error({"the weights of the dataset's samples sum to 0"}, {"give at least one a positive weight"});
  total.loss /= total.weight;
  detail::result_source::add_auxiliary(total);
  return total;
}

GPIPE_INLINE GPIPE_COLD tensor_rows basic_trainer::predict(const batch& data, weights choice) {
  if (choice == weights::averaged) return executor_->with_averages([&] { return predict(data); });
  const step_plan& plan = executor_->choose(data);
  tensor_rows rows = executor_->predictions(std::clamp(data.samples(), 0, plan.max_batch()));
  executor_->predict(data, rows, 0);
  return rows;
}
GPIPE_INLINE GPIPE_COLD tensor_rows basic_trainer::predict(const data_source& data, weights choice) {
  if (choice == weights::averaged) return executor_->with_averages([&] { return predict(data); });
  tensor_rows rows;
  detail::for_each_batch(data, plan().max_batch(), [&](const batch& part, int first) {
    if (first == 0) {
      executor_->choose(part);
      rows = executor_->predictions(data.samples());
    }
    executor_->predict(part, rows, first);
  });
  return rows;
}

GPIPE_INLINE void basic_trainer::set_watched(int layer_index, bool watched) {
  executor_->watch(detail::known_layer(executor_->net(), layer_index), watched);
}
GPIPE_INLINE const tensor_rows& basic_trainer::activation(int layer_index) const {
  return detail::watched_in(*executor_, layer_index).outputs;
}
GPIPE_INLINE const tensor_rows& basic_trainer::activation_gradient(int layer_index) const {
  return detail::watched_in(*executor_, layer_index).gradients;
}

GPIPE_INLINE const gpipe::digest& basic_trainer::digest() const { return executor_->digest(); }

GPIPE_INLINE GPIPE_COLD auto basic_trainer::handle(const detail::named_array& array) const -> model_array {
  const detail::named_array owner = net().owner(array);
  model_array found(*executor_, array);
  found.frozen =
      found.kind == array_kind::parameter && (frozen_[detail::index(owner.layer_index)][detail::index(owner.index)] ||
                                              executor_->groups().frozen(array.layer_index, array.index));
  return found;
}
GPIPE_INLINE GPIPE_COLD auto basic_trainer::find(array_kind kind, std::string_view path) const -> model_array {
  return handle(detail::find_path(net(), path, kind));
}
GPIPE_INLINE GPIPE_COLD auto basic_trainer::find(array_kind kind, int layer_index, std::string_view name) const
    -> model_array {
  return handle(detail::find_array(net().type_of(detail::known_layer(net(), layer_index)), layer_index, name, kind));
}
GPIPE_INLINE GPIPE_COLD auto basic_trainer::parameters() -> std::vector<model_array> {
  std::vector<model_array> arrays;
  detail::for_each_array(net(), [&](const detail::named_array& array) { arrays.push_back(handle(array)); });
  return arrays;
}

GPIPE_INLINE GPIPE_COLD std::string basic_trainer::group_summary() const {
  const network& net = executor_->net();
  const std::vector<parameter_group>& groups = executor_->groups().all();
  std::vector<std::size_t> elements(groups.size() + 1), arrays(groups.size() + 1);
  detail::for_each_array(net, [&](const detail::named_array& array) {
    if (array.kind != array_kind::parameter || !net.owns(array.layer_index, array.index)) return;
    const std::size_t g = detail::index(executor_->groups().of(array.layer_index, array.index));
    elements[g] += detail::description_of(net, array).extents.size();
    ++arrays[g];
  });
  std::string text;
  for (std::size_t g = 0; !groups.empty() && g <= groups.size(); ++g)
    text += detail::concat({g < groups.size() ? "group " + std::to_string(g) : "no group", ": ",
                            detail::several(static_cast<std::int64_t>(arrays[g]), "array"), ", ",
                            detail::counted(elements[g]), " parameters",
                            g < groups.size() ? "; " + detail::text_of(groups[g]) : "", "\n"});
  return text;
}

GPIPE_INLINE GPIPE_COLD void basic_trainer::keep_values(std::vector<std::byte>& values) const {
  values.resize(detail::value_bytes(net()));
  std::byte* target = values.data();
  detail::each_value(net(), [&](const array_location& value) {
    executor_->read(value, target);
    target += value.bytes;
  });
}
GPIPE_INLINE GPIPE_COLD void basic_trainer::restore_values(std::span<const std::byte> values) {
  const std::size_t bytes = detail::value_bytes(net());
  if (values.size() != bytes)
    detail::throw_error({"the values have ", values.size(), " bytes, but those of the model have ", bytes},
                        {"give what keep_values returned, of the same model"});
  executor_->write_values(values.data());
}
GPIPE_INLINE GPIPE_COLD void basic_trainer::keep_own_values(std::vector<std::byte>& values) const {
  executor_->read_own_values(values);
}
GPIPE_INLINE GPIPE_COLD void basic_trainer::restore_own_values(std::span<const std::byte> values) {
  if (const std::size_t bytes = executor_->own_value_bytes(); values.size() != bytes)
    detail::throw_error({"the values have ", values.size(), " bytes, but this process has ", bytes, " of the model"},
                        {"give what keep_own_values returned, with the same plan"});
  executor_->write_own_values(values.data());
}

GPIPE_INLINE GPIPE_COLD std::uint64_t basic_trainer::parameter_hash(int replica) const {
  const network& net = executor_->net();
  if (replica < 0 || replica >= plan().replicas())
    detail::throw_error({"replica is ", replica}, {"choose 0 to ", plan().replicas() - 1});
  detail::hash sum;
  std::vector<std::byte> copy;
  detail::each_value(net, [&](const array_location& value) {
    if (value.kind != memory_kind::parameters) return;
    copy.resize(value.bytes);
    executor_->read(value, copy.data(), replica);
    sum.add(copy.data(), value.bytes);
  });
  return sum.value();
}

GPIPE_INLINE const network& basic_trainer::net() const { return executor_->net(); }
GPIPE_INLINE const step_plan& basic_trainer::plan() const { return executor_->plan(); }
GPIPE_INLINE std::uint64_t basic_trainer::steps() const { return executor_->steps(); }
GPIPE_INLINE const std::vector<stage_report>& basic_trainer::report() const { return executor_->report(); }
GPIPE_INLINE const std::vector<recorder>& basic_trainer::trace() const { return executor_->trace(); }
GPIPE_INLINE void basic_trainer::reset_report() { executor_->reset_report(); }
GPIPE_INLINE void basic_trainer::reset_trace() { executor_->reset_trace(); }

}  // namespace gpipe
