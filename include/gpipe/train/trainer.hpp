#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gpipe/core/hash.hpp>
#include <gpipe/device/host/host.hpp>
#include <gpipe/runtime/executor.hpp>
#include <gpipe/train/dataset.hpp>
#include <gpipe/train/rate.hpp>

namespace gpipe {

/// What a training may be told beside its plan and its optimizer: `{.seed = 7, .rate = cosine{1000}, .clip = 1}`.
struct training_options {
  std::uint64_t seed = run_options{}.seed;
  rate_schedule rate = constant{};  ///< multiplies the optimizer's learning rate
  double clip = 0;                  ///< the largest norm of the mean gradient (Pascanu et al., 2012); 0: any
  std::vector<int> cut{};           ///< the first slot of every stage but the first; empty: the best cut

  // As in run_options.
  std::chrono::nanoseconds deadline = run_options{}.deadline;
  std::size_t trace_events = run_options{}.trace_events;
  std::byte arena_fill = run_options{}.arena_fill;
  std::int64_t link_bytes_per_second = run_options{}.link_bytes_per_second;
  bool slot_times = run_options{}.slot_times;
  std::function<void(const instruction&)> before{};

  run_options run() const {
    return {seed, deadline, trace_events, arena_fill, link_bytes_per_second, slot_times, before};
  }
};

namespace broken {

template <class Model, bool Holds>
struct model_ends_in_a_loss {
  static_assert(Holds, "gpipe: a model that is trained ends in a loss: a layer with the partial \"loss\", such as "
                       "softmax_cross_entropy");
};

}  // namespace broken

/// Trains a model by a plan: `trainer training{plan{}, adam{.learning_rate = 1e-3}};`, or, with choices made at run
/// time, `trainer<net, adam> training{plan_options{.stages = 4}, adam{}};`. Not for two callers at once.
template <class Model, class Optimizer, class Device = host_device>
class trainer {
  static_assert(sizeof(broken::model_ends_in_a_loss<Model, detail::mistaken_model<Model> ||
                                                            network_of<Model>.loss_slot() >= 0>) > 0);

 public:
  GPIPE_ONCE explicit trainer(const plan_options& options, Optimizer optimizer = {}, training_options how = {})
      : optimizer_(optimizer),
        rate_(how.rate),
        clip_(how.clip),
        executor_(network_of<Model>, kernels_of<Model, typename Device::context>,
                  make_plan(network_of<Model>, with_moments(options), how.cut),
                  update_rule<typename Device::context>(optimizer), how.run()) {}
  template <class Plan>
    requires requires { Plan::options; }
  explicit trainer(Plan, Optimizer optimizer = {}, training_options how = {})
      : trainer(Plan::options, std::move(optimizer), cut_by<Plan>(std::move(how))) {}

  /// One step over a batch of 1 to M x B samples: forward, backward, update. Throws `error` and leaves parameters,
  /// moments and step count as they were.
  outcome step(const batch& data) { return executor_.train(data, rate(), clip_); }

  /// What each layer takes for a micro-batch, for `plan_options{.measured = costs.view()}`: medians over so many steps
  /// that change nothing but the gradients. The batch has M x B samples.
  measured_profile measure(const batch& data, int steps = 10) { return executor_.measure(data, steps); }
  /// The same over the steps taken, newest first, of a training with `slot_times`.
  measured_profile measured() const { return executor_.measured(); }

  /// The learning rate of the next step.
  double rate() const { return optimizer_.learning_rate * rate_(executor_.steps()); }

  /// Forward only, without dropout: mean loss and accuracy of a batch, or of a whole dataset.
  outcome evaluate(const batch& data) { return executor_.evaluate(data); }
  GPIPE_ONCE outcome evaluate(const dataset& data) {
    outcome all;
    for (const batch& part : data.batches(plan().most_samples())) {
      const outcome found = evaluate(part);
      all.loss += found.loss * found.weight;
      all.weight += found.weight;
      all.correct += found.correct;
      all.samples += found.samples;
    }
    if (!(all.weight > 0))
      detail::refuse({"the weights of the dataset's samples sum to nothing"}, {"give at least one a positive weight"});
    all.loss /= all.weight;
    return all;
  }

  /// A copy of a parameter, of its gradient in the last step (a sum over samples), or of the optimizer's `moment`-th
  /// array for it: of the layer at a slot, by the layer's name for it, such as "weight".
  template <element T = float>
  std::vector<T> parameter(int slot, std::string_view name) const {
    return read<T>(slot, name, [&] { return executor_.parameters(slot); });
  }
  template <element T = float>
  std::vector<T> gradient(int slot, std::string_view name) const {
    return read<T>(slot, name, [&] { return executor_.gradients(slot); });
  }
  template <element T = float>
  std::vector<T> moment(int slot, std::string_view name, int moment) const {
    if (moment < 0 || moment >= Optimizer::moments)
      detail::refuse({"the optimizer has no moment ", moment},
                     {"it keeps ", Optimizer::moments, " arrays, counted from 0"});
    return read<T>(slot, name, [&] { return executor_.moments(slot, moment); });
  }
  /// Gives a parameter new values.
  template <element T = float>
  void set_parameter(int slot, std::string_view name, std::span<const T> values) {
    const auto [at, size] = find<T>(slot, name);
    if (values.size() != size)
      detail::refuse({"parameter \"", name, "\" has ", size, " elements, not ", values.size()}, {"give it all of them"},
                     {.layer = std::string(executor_.net().row_of(slot).name), .slot = slot});
    std::memcpy(executor_.parameters(slot) + at, values.data(), size * sizeof(T));
    executor_.refresh();
  }

  /// A hash of all parameters' bits, in model order: the same for every cut.
  std::uint64_t parameter_hash() const {
    hash sum;
    for (int l = 0; l < executor_.net().slot_count; ++l) {
      if (!executor_.net().owns(l)) continue;
      const row& r = executor_.net().row_of(l);
      const std::byte* at = executor_.parameters(l);
      for (int p = 0; p < r.parameter_count; ++p) {
        const std::size_t bytes = r.parameters[p].extents.size() * bytes_of(r.type);
        sum.add(at, bytes);
        at += aligned(bytes);
      }
    }
    return sum.value();
  }

  const run_plan& plan() const { return executor_.plan(); }
  std::uint64_t steps() const { return executor_.steps(); }
  const std::vector<stage_report>& report() const { return executor_.report(); }
  const std::vector<recorder>& trace() const { return executor_.trace(); }
  void forget() { executor_.forget(); }
  void forget_events() { executor_.forget_events(); }
  const gpipe::executor<Device>& executor() const { return executor_; }

 private:
  template <class Plan>
  static training_options cut_by(training_options how) {
    if (how.cut.empty()) how.cut.assign(Plan::cut().first + 1, Plan::cut().first + Plan::S);
    return how;
  }
  static plan_options with_moments(plan_options options) {
    options.moments = Optimizer::moments;
    return options;
  }

  // Bytes before a parameter in its slot's block, and its elements.
  template <class T>
  GPIPE_ONCE std::pair<std::size_t, std::size_t> find(int slot, std::string_view name) const {
    const network& net = executor_.net();
    using detail::refuse;
    if (slot < 0 || slot >= net.slot_count)
      refuse({"the model has no slot ", slot}, {"slots are 0 to ", net.slot_count - 1}, {.slot = slot});
    const row& r = net.row_of(slot);
    const auto here = [&] { return place{.layer = std::string(r.name), .slot = slot}; };
    std::size_t at = 0;
    for (int p = 0; p < r.parameter_count; ++p) {
      if (r.parameters[p].name == name) {
        if (r.type != dtype_of<T>) refuse({"its parameters are ", name_of(r.type)}, {"read them as that"}, here());
        return {at, r.parameters[p].extents.size()};
      }
      at += aligned(r.parameters[p].extents.size() * bytes_of(r.type));
    }
    refuse({"the layer has no parameter \"", name, "\""}, {"see its `parameters`"}, here());
  }
  // `block` tells where the slot's block is, and is asked for a slot that is there.
  template <class T, class Block>
  std::vector<T> read(int slot, std::string_view name, Block block) const {
    const auto [at, size] = find<T>(slot, name);
    std::vector<T> out(size);
    std::memcpy(out.data(), block() + at, size * sizeof(T));
    return out;
  }

  Optimizer optimizer_;
  rate_schedule rate_;
  double clip_;
  gpipe::executor<Device> executor_;
};

template <class Plan, class Optimizer>
trainer(Plan, Optimizer) -> trainer<typename Plan::model, Optimizer>;
template <class Plan, class Optimizer>
trainer(Plan, Optimizer, training_options) -> trainer<typename Plan::model, Optimizer>;

}  // namespace gpipe
