#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <type_traits>

#include <gpipe/core/included.hpp>
#include <gpipe/device/contract/device_of.hpp>
#include <gpipe/device/host/host.hpp>
#include <gpipe/model/in_bf16.hpp>
#include <gpipe/plan/options/plan_options.hpp>
#include <gpipe/plan/options/planner.hpp>
#include <gpipe/plan/step_plan.hpp>
#include <gpipe/train/basic_trainer.hpp>

#if !GPIPE_COMPILED
#include <gpipe/train/basic_trainer-inl.hpp>
#else
#include <gpipe/train/host_kinds.hpp>
#endif

namespace gpipe {

namespace broken {

template <class Model, bool Holds>
struct model_ends_in_a_loss {
  static_assert(Holds,
                "gpipe: a model that is trained ends in a loss: a layer with the partial \"loss\", such as "
                "softmax_cross_entropy");
};

template <bool Holds, class... Given>
struct step_does_it_all {
  static_assert(Holds,
                "gpipe: training.step(batch) runs forward, backward and the update, with gradients that begin at zero; "
                "training.accumulate(batch) leaves the update out, and predict(batch) runs forward alone");
};
template <class Optimizer, bool Holds>
struct trainer_has_an_optimizer {
  static_assert(Holds,
                "gpipe: a trainer's second argument is not an optimizer, such as adamw: write trainer<net, adamw> "
                "training{plan_options{.stages = 4}, adamw{.learning_rate = 1e-3}}");
};
template <class Optimizer, bool HasMoments, bool HasLearningRate, bool HasRule>
struct optimizer_is_complete {
  static_assert(HasMoments,
                "gpipe: an optimizer of your own lacks `static constexpr int moments`, the number of arrays that it "
                "keeps beside the parameters; 0: none");
  static_assert(HasLearningRate,
                "gpipe: an optimizer of your own lacks `double learning_rate`, which a schedule multiplies and `rule` "
                "gets as `now.rate`");
  static_assert(
      HasRule,
      "gpipe: an optimizer of your own lacks `template <class T> auto rule(const update_operands<T>& of, const "
      "update_terms& now) const`, which returns a functor of an element, or `arrays`, `array`, `sums` and "
      "`update` of a rule for whole tensors");
};
template <bool Holds, class... Given>
struct fit_is_a_function {
  static_assert(Holds, "gpipe: fit is a function of a trainer and data: fit(training, data, {.epochs = 10})");
};
template <bool Holds, class... Given>
struct trainer_has_a_plan {
  static_assert(
      Holds,
      "gpipe: a trainer is made of a plan and an optimizer, trainer{plan<net, stages<4>>{}, adamw{}}, or of a "
      "model, options and an optimizer, trainer{net{}, plan_options{.stages = 4}, adamw{}}, in this order; "
      "training_options may follow");
};
template <class Plan, bool Holds>
struct trainer_has_a_model {
  static_assert(
      Holds,
      "gpipe: a trainer's first argument is a plan, and should be its model. Leave the arguments out, and give "
      "the plan to the constructor: trainer training{plan<net, stages<4>>{}, adamw{.learning_rate = 1e-3}}");
};
template <class Device, bool Holds>
struct trainer_has_a_device {
  static_assert(Holds,
                "gpipe: a trainer's third argument is a device, such as cuda_device. A plan is given to its "
                "constructor: trainer<net, adamw> training{plan<net, stages<4>>{}, adamw{.learning_rate = 1e-3}}");
};

}  // namespace broken

namespace detail {

/// In the place of the model, if the arguments of a trainer are others.
template <class... Given>
struct misgiven {};
template <class Optimizer>
concept with_moments = requires {
  Optimizer::moments;
};
template <class Optimizer>
concept with_learning_rate = requires(const Optimizer& optimizer) {
  optimizer.learning_rate;
};
template <class Optimizer>
concept with_rule = tensor_rule<Optimizer> ||
    requires(const Optimizer& optimizer, const update_operands<float>& operands, const update_terms& terms) {
  optimizer.template rule<float>(operands, terms);
};
template <class Optimizer>
concept updating = with_moments<Optimizer> && with_learning_rate<Optimizer> && with_rule<Optimizer>;
template <class Device>
concept has_context = requires {
  typename Device::context;
};
template <class Plan>
concept planned = requires {
  Plan::options;
  typename Plan::model;
};
template <class Model, class Optimizer, class Device>
struct mistaken_trainer {
  using promise = broken::trainer_has_an_optimizer<Optimizer, false>;
};
template <class... Given, class Optimizer, class Device>
struct mistaken_trainer<misgiven<Given...>, Optimizer, Device> {
  using promise = broken::trainer_has_a_plan<false, Given...>;
};
template <class Model, updating Optimizer, class Device>
struct mistaken_trainer<Model, Optimizer, Device> {
  using promise = broken::trainer_has_a_device<Device, false>;
};
template <class Model, updating Optimizer, class Device>
requires planned<Model>
struct mistaken_trainer<Model, Optimizer, Device> {
  using promise = broken::trainer_has_a_model<Model, false>;
};
template <class Model, class Optimizer, class Device>
requires(!updating<Optimizer> && (with_moments<Optimizer> || with_learning_rate<Optimizer>))  // a part of an optimizer
    struct mistaken_trainer<Model, Optimizer, Device> {
  using promise = broken::optimizer_is_complete<Optimizer, with_moments<Optimizer>, with_learning_rate<Optimizer>,
                                                with_rule<Optimizer>>;
};
/// Made of the arguments that may stand behind the plan of a trainer.
template <class Optimizer>
struct behind_a_plan {
  behind_a_plan(const Optimizer& = {}, const training_options& = {});  // NOLINT(google-explicit-constructor)
};

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

/// Trains a model by a plan: `trainer training{plan{}, adam{.learning_rate = 1e-3}};`. If choices are made at run time:
/// `trainer<net, adam> training{plan_options{.stages = 4}, adam{}};`. A trainer of `both_precisions<net>` chooses the
/// precision at run time, too. Only one thread at a time may call it.
///
/// Only what depends on the model or the optimizer stands here; `basic_trainer` declares the rest.
template <class Model, class Optimizer = void, class Device = host_device>
class trainer : public basic_trainer {
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

  // Other arguments, arrays in the place of a batch, and the calls of other libraries: these are here for the error.
  template <class Given, class... More>
  requires(!detail::planned<Given> && !std::same_as<Given, Model> &&
           !(std::convertible_to<const Given&, plan_options> &&
             std::constructible_from<detail::behind_a_plan<Optimizer>, const More&...>))  //
      explicit trainer(const Given&, const More&...)
      : trainer(detail::never<const compiled&>(), detail::never<const detail::plan_source&>(),
                detail::never<const Optimizer&>(), detail::never<const training_options&>()) {
    static_assert(sizeof(broken::trainer_has_a_plan<(sizeof(Given) == 0), Given, More...>) > 0);
  }
  using basic_trainer::step;
  template <class Given, class... More>
  requires(!std::derived_from<Given, batch>) step_result step(const Given& given, const More&...) {
    return step(batch(given));
  }
  template <class... Given>
  void forward(const Given&...) {
    static_assert(sizeof(broken::step_does_it_all<(sizeof...(Given) < 0), Given...>) > 0);
  }
  template <class... Given>
  void backward(const Given&...) {
    static_assert(sizeof(broken::step_does_it_all<(sizeof...(Given) < 0), Given...>) > 0);
  }
  template <class... Given>
  void fit(const Given&...) {
    static_assert(sizeof(broken::fit_is_a_function<(sizeof...(Given) < 0), Given...>) > 0);
  }
  template <class... Given>
  void zero_grad(const Given&...) {
    static_assert(sizeof(broken::step_does_it_all<(sizeof...(Given) < 0), Given...>) > 0);
  }

 private:
  struct compiled {
    const network& net;
    const detail::kernel_row* kernels;
  };
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

/// A trainer without an optimizer, without a device, of a plan, or of other arguments: its error.
template <class Model, class Optimizer, class Device>
requires(!detail::updating<Optimizer> || !detail::has_context<Device> ||
         detail::planned<Model>) class trainer<Model, Optimizer, Device> : public basic_trainer {
  using context = host_device::context;

 public:
  template <class... Given>
  explicit trainer(const Given&...)
      : basic_trainer(detail::device_of<host_device>, detail::never<const network&>(), nullptr,
                      detail::never<const detail::plan_source&>(), detail::never<const detail::optimizer_update&>(), 0,
                      detail::never<const training_options&>()) {
    static_cast<void>(detail::asserted<typename detail::mistaken_trainer<Model, Optimizer, Device>::promise>{});
  }
};

template <class Model, class Optimizer>
trainer(Model, plan_options, Optimizer) -> trainer<Model, Optimizer>;
template <class Model, class Optimizer>
trainer(Model, plan_options, Optimizer, training_options) -> trainer<Model, Optimizer>;
template <class Plan, class Optimizer>
trainer(Plan, Optimizer) -> trainer<typename Plan::model, Optimizer>;
template <class Plan, class Optimizer>
trainer(Plan, Optimizer, training_options) -> trainer<typename Plan::model, Optimizer>;
template <class First, class Second>
requires(!detail::planned<First>) trainer(First, Second)
->trainer<detail::misgiven<First, Second>>;
template <class First, class Second, class Third>
requires(!detail::planned<First> && !std::same_as<Second, plan_options>) trainer(First, Second, Third)
->trainer<detail::misgiven<First, Second, Third>>;

}  // namespace gpipe
