#pragma once

#include <concepts>

#include <gpipe/core/descriptions/optimizer.hpp>
#include <gpipe/core/descriptions/tensor_rule.hpp>
#include <gpipe/core/included.hpp>
#include <gpipe/device/contract/device_of.hpp>
#include <gpipe/device/host/host.hpp>
#include <gpipe/plan/options/plan_options.hpp>
#include <gpipe/runtime/binding/optimizer_update.hpp>
#include <gpipe/runtime/step/training_options.hpp>
#include <gpipe/train/basic_trainer.hpp>

// Mistaken uses of a trainer, and the error messages for them. A program that compiles uses only the concepts.

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

/// Replaces the model if a trainer is given other arguments.
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
/// Made of the arguments that may follow the plan of a trainer.
template <class Optimizer>
struct after_a_plan {
  after_a_plan(const Optimizer& = {}, const training_options& = {});  // NOLINT(google-explicit-constructor)
};

/// Arguments that no constructor of a trainer takes.
template <class Model, class Optimizer, class Given, class... More>
concept mistaken_arguments = !planned<Given> && !std::same_as<Given, Model> &&
                             !(std::convertible_to<const Given&, plan_options> &&
                               std::constructible_from<after_a_plan<Optimizer>, const More&...>);

/// Calls that a training loop of another library has: their errors name the call to use here.
class mistaken_calls {
 public:
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
};

}  // namespace detail

template <class Model, class Optimizer, class Device>
class trainer;

/// The error of a trainer without an optimizer, without a device, of a plan, or of other arguments.
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

template <class First, class Second>
requires(!detail::planned<First>) trainer(First, Second)
->trainer<detail::misgiven<First, Second>, void, host_device>;
template <class First, class Second, class Third>
requires(!detail::planned<First> && !std::same_as<Second, plan_options>) trainer(First, Second, Third)
->trainer<detail::misgiven<First, Second, Third>, void, host_device>;

}  // namespace gpipe
