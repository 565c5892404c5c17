#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include <gpipe/core/config.hpp>
#include <gpipe/core/numbers/math.hpp>

namespace gpipe {

/// The maximum number of moments: arrays of the parameters' size that an optimizer keeps.
inline constexpr int max_moments = 4;

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

/// Stochastic gradient descent: v <- momentum v + g; p <- p - rate v, with g the mean gradient plus weight_decay p.
/// A custom optimizer is a struct like these: its number of moments, its learning rate, and a rule for one element.
struct sgd {
  double learning_rate = 0.01;
  double momentum = 0;
  double weight_decay = 0;
  static constexpr int moments = 1;

  template <class T>
  struct rule_for {
    update_operands<T> of;
    T rate, scale, momentum, decay;
    GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const {
      const T gradient = of.gradient[i] * scale + of.parameter[i] * decay;
      const T moment = of.moment[0][i] * momentum + gradient;
      of.moment[0][i] = moment;
      of.parameter[i] -= rate * moment;
    }
  };
  template <class T>
  rule_for<T> rule(const update_operands<T>& of, const update_terms& now) const {
    return {of, static_cast<T>(now.rate), static_cast<T>(now.scale), static_cast<T>(momentum),
            static_cast<T>(weight_decay)};
  }
};

namespace detail {

template <class T>
struct adam_rule {
  update_operands<T> of;
  T rate, scale, beta1, beta2, root2, epsilon, decay, shrink;
  GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const {
    const T gradient = of.gradient[i] * scale + of.parameter[i] * decay;
    const T first = of.moment[0][i] * beta1 + gradient * (T(1) - beta1);
    const T second = of.moment[1][i] * beta2 + gradient * gradient * (T(1) - beta2);
    of.moment[0][i] = first;
    of.moment[1][i] = second;
    of.parameter[i] = of.parameter[i] * shrink - rate * first / (math::sqrt(second) * root2 + epsilon);
  }
};

}  // namespace detail

/// Adam (Kingma, Ba, 2014). Weight decay, if any, is added to the gradient.
struct adam {
  double learning_rate = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
  static constexpr int moments = 2;

  template <class T>
  detail::adam_rule<T> rule(const update_operands<T>& of, const update_terms& now) const {
    const auto t = static_cast<double>(now.step);
    return {of,
            static_cast<T>(now.rate / (1 - std::pow(beta1, t))),
            static_cast<T>(now.scale),
            static_cast<T>(beta1),
            static_cast<T>(beta2),
            static_cast<T>(1 / std::sqrt(1 - std::pow(beta2, t))),
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
  static constexpr int moments = 2;

  template <class T>
  detail::adam_rule<T> rule(const update_operands<T>& of, const update_terms& now) const {
    auto rule = adam{learning_rate, beta1, beta2, epsilon, 0}.rule(of, now);
    rule.shrink = static_cast<T>(1 - now.rate * weight_decay);
    return rule;
  }
};

}  // namespace gpipe
