#pragma once

#include <array>
#include <concepts>
#include <cstddef>

#include <gpipe/core/included.hpp>
#include <gpipe/device/contract/device_of.hpp>
#include <gpipe/device/host/host.hpp>
#include <gpipe/model/in_bf16.hpp>
#include <gpipe/plan/options/plan_options.hpp>
#include <gpipe/plan/step_plan.hpp>
#include <gpipe/train/basic_trainer.hpp>
#include <gpipe/train/trainer_mistakes.hpp>

#if !GPIPE_COMPILED
#include <gpipe/train/basic_trainer-inl.hpp>
#else
#include <gpipe/train/host_kinds.hpp>
#endif

namespace gpipe {

namespace detail {

template <class Model>
constexpr plan_maker planned_at_run_time() {
  static_assert(included<planner<Model>>,
                "gpipe: a trainer of plan_options plans at run time: #include <gpipe/make_plan.hpp>");
  if constexpr (included<planner<Model>>) return planner<Model>::make_plan;
  else return nullptr;
}

template <class Model>
concept of_lengths = requires {
  Model::networks();
};

/// The further plans of a model of several lengths.
template <class Model, class Context>
struct lengths_in {
  static constexpr std::size_t longest = Model::values.size() - 1;
  static constexpr auto anew = Model::derives_anew();
  static constexpr auto rows = [] {
    std::array<shorter_lengths::length, longest + 1> found{};
    Model::each([&]<class Its>(std::size_t i) {
      found[i] = {Model::values[i], Model::networks()[i], kernels_of<Its, Context>};
    });
    return found;
  }();
};

/// A small plan is taken over as it is. One that is too large for the compiler to run its programs, or that depends on
/// the training's optimizer, is made again with its cut.
template <class Plan>
GPIPE_COLD step_plan planned_by_compiler(const network& net, const plan_options& options) {
  if constexpr (Plan::is_constant) {
    return Plan::made_for(net, options);
  } else {
    static_assert(included<planner<Plan>>,
                  "gpipe: this plan is completed at run time, because it is large, or as much recompute or grouping as "
                  "memory allows depends on the training's optimizer: #include <gpipe/make_plan.hpp>");
    if constexpr (included<planner<Plan>>)
      return planner<Plan>::plan_with_cut(net, options, {Plan::cut().first + 1, Plan::S - 1}, 0);
  }
}

}  // namespace detail

// assumes: one kind of device
/// Trains a model by a plan: `trainer training{plan{}, adam{.learning_rate = 1e-3}};`. If choices are made at run time:
/// `trainer<net, adam> training{plan_options{.stages = 4}, adam{}};`. A trainer of `both_precisions<net>` chooses the
/// precision at run time, too. Only one thread at a time may call it.
///
/// This class declares what depends on the model or the optimizer; `basic_trainer` declares the rest.
template <class Model, class Optimizer = void, class Device = host_device>
class trainer : public basic_trainer, public detail::mistaken_calls {
  using context = typename Device::context;
  using model = typename detail::unwrapped<Model>::model;
  static_assert(sizeof(broken::model_ends_in_a_loss < model,
                       detail::mistaken_model<model> || network_of<model>.loss_layer() >= 0 >) > 0);

 public:
  trainer(trainer&&) noexcept = default;
  trainer& operator=(trainer&&) noexcept = default;
  trainer(const trainer&) = delete;             // gpipe: a trainer moves and is not copied: std::move(training)
  trainer& operator=(const trainer&) = delete;  // gpipe: a trainer moves and is not copied: std::move(training)

  /// The plan is made at run time: include <gpipe/make_plan.hpp>.
  GPIPE_COLD explicit trainer(const plan_options& options, const Optimizer& optimizer = {},
                              const training_options& settings = {})
      : trainer(compiled_in(options.precision), {options, detail::planned_at_run_time<Model>()}, optimizer, settings) {}
  /// The same, with the model as a value, from which a compiler deduces the types: `trainer{net{}, options, adam{}}`.
  GPIPE_COLD trainer(Model, const plan_options& options, const Optimizer& optimizer = {},
                     const training_options& settings = {})
      : trainer(options, optimizer, settings) {}
  /// The plan was made by the compiler.
  template <class Plan>
  requires requires { Plan::options; }
  GPIPE_COLD explicit trainer(Plan, const Optimizer& optimizer = {}, const training_options& settings = {})
      : trainer(compiled_in(Plan::options.precision),
                {Plan::options, nullptr, &detail::planned_by_compiler<Plan>, {Plan::cut().first + 1, Plan::S - 1}},
                optimizer, settings) {}

  // Other arguments, and arrays in place of a batch: here for the error.
  template <class Given, class... More>
  requires(detail::mistaken_arguments<Model, Optimizer, Given, More...>) explicit trainer(const Given&, const More&...)
      : trainer(detail::never<const compiled&>(), detail::never<const detail::plan_source&>(),
                detail::never<const Optimizer&>(), detail::never<const training_options&>()) {
    static_assert(sizeof(broken::trainer_has_a_plan<(sizeof(Given) == 0), Given, More...>) > 0);
  }
  using basic_trainer::step;
  template <class Given, class... More>
  requires(!std::derived_from<Given, batch>) step_result step(const Given& given, const More&...) {
    return step(batch(given));
  }

 private:
  struct compiled {
    const network& net;
    const detail::kernel_row* kernels;
  };
  // assumes: half precision is bf16
  static compiled compiled_in(precision wanted) {
    if constexpr (detail::unwrapped<Model>::both)
      if (wanted == precision::bf16) return {network_of<in_bf16<model>>, detail::kernels_of<in_bf16<model>, context>};
    return {network_of<model>, detail::kernels_of<model, context>};
  }
  static detail::shorter_lengths shorter() {
    if constexpr (detail::of_lengths<Model>) {
      using in = detail::lengths_in<Model, context>;
      return {
          {in::rows.data(), in::longest}, Model::values.back(), in::anew.data(), detail::planned_at_run_time<Model>()};
    } else {
      return {};
    }
  }
  trainer(const compiled& variant, const detail::plan_source& plan, const Optimizer& optimizer,
          const training_options& settings)
      : basic_trainer(detail::device_of<Device>, variant.net, variant.kernels, plan,
                      detail::optimizer_update::of<context>(optimizer), optimizer.learning_rate, settings, shorter()) {}
};

template <class Model, class Optimizer>
trainer(Model, plan_options, Optimizer) -> trainer<Model, Optimizer>;
template <class Model, class Optimizer>
trainer(Model, plan_options, Optimizer, training_options) -> trainer<Model, Optimizer>;
template <class Plan, class Optimizer>
trainer(Plan, Optimizer) -> trainer<typename Plan::model, Optimizer>;
template <class Plan, class Optimizer>
trainer(Plan, Optimizer, training_options) -> trainer<typename Plan::model, Optimizer>;

}  // namespace gpipe
