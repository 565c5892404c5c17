#pragma once

#include <cstddef>

#include <gpipe/core/config.hpp>
#include <gpipe/core/descriptions/optimizer.hpp>
#include <gpipe/plan/options/plan_options.hpp>
#include <gpipe/plan/schedule/contract/scheduler.hpp>
#include <gpipe/runtime/step/training_options.hpp>
#include <gpipe/train/trainer.hpp>

namespace gpipe {

namespace broken {

template <class Call, bool Holds>
struct predictors_do_not_train {
  static_assert(Holds,
                "gpipe: a predictor has weights and a forward pass, and no gradients: to take steps make a trainer");
};
template <class Second, bool Holds>
struct predictor_has_a_device {
  static_assert(Holds,
                "gpipe: a predictor has a model and, on another device, that device, and no optimizer: "
                "predictor<net> model{plan_options{.stages = 2}}");
};
template <class Plan, bool Holds>
struct predictors_plan_is_forward_only {
  static_assert(Holds, "gpipe: a predictor's plan runs forward only: add schedule<forward_only> to its options");
};

}  // namespace broken

namespace detail {

/// The optimizer of a model that is not trained: it keeps nothing and changes nothing.
struct no_optimizer {
  double learning_rate = 0;
  static constexpr int moments = 0;

  template <class T>
  struct rule_for {
    GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t) const {}
  };
  template <class T>
  rule_for<T> rule(const update_operands<T>&, const update_terms&) const {
    return {};
  }
};

}  // namespace detail

/// A model's weights and its forward pass, in a pipeline, without a training: no gradients, no optimizer, and no
/// activations for a backward. Its plan counts this memory alone.
///
///     predictor<net> model{plan_options{.stages = 2, .micro_batches = 8, .micro_batch_size = 16}};
///     model.load("weights.safetensors");
///     const tensor_rows logits = model.predict(data);
///
/// It loads from a file, or the weights of a training's checkpoint; it has a trainer's `evaluate`, `predict`, `watch`,
/// `array`, `summary` and `generator`, and gives the same bits. `save` takes the path of a .safetensors file.
template <class Model, class Device = host_device>
class predictor : public trainer<Model, detail::no_optimizer, Device> {
  using base = trainer<Model, detail::no_optimizer, Device>;

 public:
  /// The plan is made at run time, for forward passes alone whatever the schedule: include <gpipe/make_plan.hpp>.
  GPIPE_COLD explicit predictor(plan_options options, const training_options& settings = {})
      : base(forward(options), {}, settings) {}
  GPIPE_COLD predictor(Model, plan_options options, const training_options& settings = {})
      : base(forward(options), {}, settings) {}
  /// The plan was made by the compiler, with `schedule<forward_only>`.
  template <class Plan>
  requires requires { Plan::options; }
  GPIPE_COLD explicit predictor(Plan plan, const training_options& settings = {}) : base(plan, {}, settings) {
    static_assert(
        sizeof(broken::predictors_plan_is_forward_only<Plan, Plan::options.schedule == schedule_kind::forward_only>) >
        0);
  }

  /// Errors: a predictor takes no steps.
  template <class... Given>
  step_result step(const Given&...) {
    return refuse<Given...>();
  }
  template <class... Given>
  step_result accumulate(const Given&...) {
    return refuse<Given...>();
  }

 private:
  template <class... Given>
  static step_result refuse() {
    static_assert(sizeof(broken::predictors_do_not_train<predictor, sizeof...(Given) == ~std::size_t{0}>) > 0);
    return {};
  }
  static plan_options forward(plan_options options) {
    options.schedule = schedule_kind::forward_only;
    options.custom_schedule = nullptr;
    return options;
  }
};

/// A predictor with an optimizer: its error.
template <class Model, class Optimizer>
requires(detail::updating<Optimizer>) class predictor<Model, Optimizer> : public predictor<Model> {
 public:
  template <class... Given>
  explicit predictor(const Given&...) : predictor<Model>(plan_options{}) {
    static_assert(sizeof(broken::predictor_has_a_device<Optimizer, sizeof...(Given) == ~std::size_t{0}>) > 0);
  }
};

template <class Model>
predictor(Model, plan_options) -> predictor<Model>;
template <class Model>
predictor(Model, plan_options, training_options) -> predictor<Model>;
template <class Plan>
requires requires { Plan::options; }
predictor(Plan)->predictor<typename Plan::model>;
template <class Plan>
requires requires { Plan::options; }
predictor(Plan, training_options)->predictor<typename Plan::model>;

}  // namespace gpipe
