#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <gpipe/core/config.hpp>
#include <gpipe/core/error.hpp>
#include <gpipe/core/included.hpp>
#include <gpipe/core/numbers/double_bits.hpp>
#include <gpipe/core/numbers/math.hpp>
#include <gpipe/core/numbers/multiply_add.hpp>
#include <gpipe/core/text/quantity.hpp>

namespace gpipe {

/// The maximum number of moments: arrays of the parameters' size that an optimizer keeps.
inline constexpr int max_moments = 4;

// assumes: one parameter type
/// The flat arrays of a stage that an update reads and writes.
template <class T>
struct update_operands {
  T* parameter = nullptr;
  const T* gradient = nullptr;  ///< the *sum* over samples
  T* moment[max_moments]{};
};

/// The scalars of an update: they are the same for all elements of a step.
struct update_terms {
  std::int64_t step = 1;  ///< counted from 1
  double rate = 0;        ///< learning rate, from the schedule
  double scale = 1;       ///< turns the summed gradient into the clipped mean
};

namespace broken {

template <class Number, bool Holds>
struct optimizer_has_learning_rate {
  static_assert(Holds,
                "gpipe: .lr is the name of PyTorch; here it is .learning_rate, the first member of an optimizer: "
                "adamw{.learning_rate = 1e-3}");
};
template <class Number, bool Holds>
struct optimizer_has_beta1 {
  static_assert(Holds, "gpipe: .betas is the name of PyTorch; here they are .beta1 and .beta2, behind .learning_rate");
};
template <class Number, bool Holds>
struct optimizer_has_epsilon {
  static_assert(Holds, "gpipe: .eps is the name of PyTorch; here it is .epsilon");
};

}  // namespace broken

namespace detail {

/// Settings under PyTorch's names, which no program can set: the error names ours. They are declared after the settings
/// of an optimizer and take no memory.
using torch_lr = named_elsewhere<broken::optimizer_has_learning_rate>;
struct torch_betas {
  constexpr torch_betas() = default;
  template <class Number>
  requires std::is_arithmetic_v<Number>
  constexpr torch_betas(Number, Number) { static_assert(sizeof(broken::optimizer_has_beta1<Number, false>) > 0); }
};
using torch_eps = named_elsewhere<broken::optimizer_has_epsilon>;

// For an optimizer's `check()`: each throws unless its setting is valid.

GPIPE_COLD inline void refuse_setting(const char* name, double value, const char* remedy) {
  throw_error({name, " is ", significant(value, 6)}, {remedy});
}
/// The share of the old value in a moving average.
GPIPE_COLD inline void require_share(const char* name, double value) {
  if (!(value >= 0 && value < 1 && is_finite(value))) refuse_setting(name, value, "choose 0 or more, and less than 1");
}
GPIPE_COLD inline void require_positive(const char* name, double value) {
  if (!(value > 0 && is_finite(value))) refuse_setting(name, value, "choose a number above 0");
}
GPIPE_COLD inline void require_not_negative(const char* name, double value) {
  if (!(value >= 0 && is_finite(value))) refuse_setting(name, value, "choose 0 or more");
}

}  // namespace detail

/// Stochastic gradient descent: v <- momentum v + g; p <- p - rate v, with g the mean gradient plus weight_decay p.
/// With `nesterov` it looks ahead (Nesterov, 1983), as PyTorch's SGD: p <- p - rate (g + momentum v).
///
/// A custom optimizer is a struct like these, with its number of moments, its learning rate, and a rule for one
/// element. Optional members:
///
///     static constexpr double first_moments[] = {1, 0};  // the moments' first values; else all are 0
///     void check() const;                                // throws if a setting is invalid
///     double weight_decay;                               // a parameter group may replace it
///
/// A rule whose arrays are in a member `of`, and which accesses only their element i, may declare `static constexpr
/// bool elementwise = true`. A GPU then reads and writes 16 bytes of each array at once: it calls a copy of the rule
/// whose `of` refers to other arrays, in which the elements have other indices i.
///
/// A rule that needs the rows, the columns or the norm of a tensor is a `tensor_rule` (tensor_rule.hpp).
struct sgd {
  double learning_rate = 0.01;
  double momentum = 0;
  double weight_decay = 0;
  bool nesterov = false;
  [[no_unique_address]] detail::torch_lr lr{};
  static constexpr int moments = 1;

  GPIPE_COLD void check() const {
    detail::require_share("momentum", momentum);
    detail::require_not_negative("weight_decay", weight_decay);
    if (nesterov && momentum == 0)
      detail::throw_error({"nesterov is true, and momentum is 0"}, {"choose a momentum above 0, such as 0.9"});
  }

  template <class T>
  struct rule_for {
    static constexpr bool elementwise = true;
    update_operands<T> of;
    T rate, scale, momentum, decay;
    bool nesterov;
    GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const {
      const T gradient = detail::multiply_add(of.gradient[i], scale, of.parameter[i] * decay);
      const T moment = detail::multiply_add(of.moment[0][i], momentum, gradient);
      of.moment[0][i] = moment;
      const T along = nesterov ? detail::multiply_add(moment, momentum, gradient) : moment;
      of.parameter[i] = detail::multiply_add(-rate, along, of.parameter[i]);
    }
  };
  template <class T>
  rule_for<T> rule(const update_operands<T>& operands, const update_terms& terms) const {
    return {operands,
            static_cast<T>(terms.rate),
            static_cast<T>(terms.scale),
            static_cast<T>(momentum),
            static_cast<T>(weight_decay),
            nesterov};
  }
};

namespace detail {

/// The weights of the old and the new value in a moving average, each rounded once: in float 1 - 0.999F is 1.3e-5 from
/// 0.001, and 1 - 0.99999F a thousandth from 0.00001.
template <class T>
struct average_shares {
  T old, fresh;
  explicit average_shares(double kept) : old(static_cast<T>(kept)), fresh(static_cast<T>(1 - kept)) {}
  GPIPE_HOST_DEVICE T average(T mean, T value) const { return multiply_add(mean, old, value * fresh); }
};

template <class T>
struct adam_rule {
  static constexpr bool elementwise = true;
  update_operands<T> of;
  T rate, scale;
  average_shares<T> first_shares, second_shares;
  T root2, epsilon, decay, shrink;
  GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const {
    const T gradient = multiply_add(of.gradient[i], scale, of.parameter[i] * decay);
    const T first = first_shares.average(of.moment[0][i], gradient);
    const T second = second_shares.average(of.moment[1][i], gradient * gradient);
    of.moment[0][i] = first;
    of.moment[1][i] = second;
    const T change = rate * first / multiply_add(math::sqrt(second), root2, epsilon);
    of.parameter[i] = multiply_add(of.parameter[i], shrink, -change);
  }
};

}  // namespace detail

/// Adam (Kingma, Ba, 2014). Weight decay, if any, is added to the gradient.
struct adam {
  double learning_rate = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
  [[no_unique_address]] detail::torch_lr lr{};
  [[no_unique_address]] detail::torch_betas betas{};
  [[no_unique_address]] detail::torch_eps eps{};
  static constexpr int moments = 2;

  GPIPE_COLD void check() const {
    detail::require_share("beta1", beta1);
    detail::require_share("beta2", beta2);
    detail::require_positive("epsilon", epsilon);
    detail::require_not_negative("weight_decay", weight_decay);
  }

  template <class T>
  detail::adam_rule<T> rule(const update_operands<T>& operands, const update_terms& terms) const {
    const auto t = static_cast<double>(terms.step);
    return {operands,
            static_cast<T>(terms.rate / (1 - math::pow(beta1, t))),
            static_cast<T>(terms.scale),
            detail::average_shares<T>(beta1),
            detail::average_shares<T>(beta2),
            static_cast<T>(1 / std::sqrt(1 - math::pow(beta2, t))),
            static_cast<T>(epsilon),
            static_cast<T>(weight_decay),
            T(1)};
  }
};

/// Adam with decoupled weight decay (Loshchilov, Hutter, 2017): p <- (1 - rate weight_decay) p before the step.
struct adamw {
  double learning_rate = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.01;
  [[no_unique_address]] detail::torch_lr lr{};
  [[no_unique_address]] detail::torch_betas betas{};
  [[no_unique_address]] detail::torch_eps eps{};
  static constexpr int moments = 2;

  GPIPE_COLD void check() const { adam{learning_rate, beta1, beta2, epsilon, weight_decay}.check(); }

  template <class T>
  detail::adam_rule<T> rule(const update_operands<T>& operands, const update_terms& terms) const {
    auto rule = adam{learning_rate, beta1, beta2, epsilon, 0}.rule(operands, terms);
    rule.shrink = static_cast<T>(detail::multiply_add(-terms.rate, weight_decay, 1));
    return rule;
  }
};

}  // namespace gpipe
