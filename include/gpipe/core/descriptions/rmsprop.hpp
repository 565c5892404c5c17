#pragma once

#include <gpipe/core/descriptions/optimizer.hpp>
#include <gpipe/core/numbers/multiply_add.hpp>

namespace gpipe {

namespace detail {

// Keeps v, the moving mean of the squared gradient, as moment 0. As in TensorFlow, epsilon is inside the root, and a
// step contains the rate.
template <class T, bool AsTensorFlow>
struct rmsprop_rule {
  static constexpr bool elementwise = true;
  update_operands<T> of;
  T rate, scale;
  average_shares<T> shares;
  T epsilon, momentum, decay;
  GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const {
    const T gradient = multiply_add(of.gradient[i], scale, of.parameter[i] * decay);
    const T mean_square = shares.average(of.moment[0][i], gradient * gradient);
    T step;
    if constexpr (AsTensorFlow) step = rate * gradient / math::sqrt(mean_square + epsilon);
    else step = gradient / (math::sqrt(mean_square) + epsilon);
    step = multiply_add(of.moment[1][i], momentum, step);
    of.moment[0][i] = mean_square;
    of.moment[1][i] = step;
    if constexpr (AsTensorFlow) of.parameter[i] -= step;
    else of.parameter[i] = multiply_add(-rate, step, of.parameter[i]);
  }
};

}  // namespace detail

/// RMSProp as in PyTorch, g the mean gradient plus weight_decay p, v from 0:
///
///     v <- alpha v + (1 - alpha) g^2;  b <- momentum b + g / (sqrt(v) + epsilon);  p <- p - rate b
struct rmsprop {
  double learning_rate = 0.01;
  double alpha = 0.99;
  double epsilon = 1e-8;
  double momentum = 0;
  double weight_decay = 0;
  [[no_unique_address]] detail::torch_lr lr{};
  [[no_unique_address]] detail::torch_eps eps{};
  static constexpr int moments = 2;

  GPIPE_COLD void check() const {
    detail::require_share("alpha", alpha);
    detail::require_positive("epsilon", epsilon);
    detail::require_share("momentum", momentum);
    detail::require_not_negative("weight_decay", weight_decay);
  }
  template <class T, bool AsTensorFlow = false>
  detail::rmsprop_rule<T, AsTensorFlow> rule(const update_operands<T>& operands, const update_terms& terms) const {
    return {operands,
            static_cast<T>(terms.rate),
            static_cast<T>(terms.scale),
            detail::average_shares<T>(alpha),
            static_cast<T>(epsilon),
            static_cast<T>(momentum),
            static_cast<T>(weight_decay)};
  }
};

/// RMSProp as in TensorFlow: epsilon is inside the root, v starts at 1, and b holds the rate of each step:
///
///     v <- alpha v + (1 - alpha) g^2;  b <- momentum b + rate g / sqrt(v + epsilon);  p <- p - b
///
/// The defaults are those with which AmoebaNet was trained.
struct rmsprop_tf {
  double learning_rate = 0.015;
  double alpha = 0.9;
  double epsilon = 1;
  double momentum = 0.9;
  double weight_decay = 0;
  [[no_unique_address]] detail::torch_lr lr{};
  [[no_unique_address]] detail::torch_eps eps{};
  static constexpr int moments = 2;
  static constexpr double first_moments[] = {1, 0};

  GPIPE_COLD void check() const { as_in_pytorch().check(); }
  template <class T>
  detail::rmsprop_rule<T, true> rule(const update_operands<T>& operands, const update_terms& terms) const {
    return as_in_pytorch().template rule<T, true>(operands, terms);
  }

 private:
  constexpr rmsprop as_in_pytorch() const { return {learning_rate, alpha, epsilon, momentum, weight_decay}; }
};

}  // namespace gpipe
