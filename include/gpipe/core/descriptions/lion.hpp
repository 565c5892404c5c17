#pragma once

#include <gpipe/core/descriptions/optimizer.hpp>
#include <gpipe/core/numbers/multiply_add.hpp>

namespace gpipe {

// change: an optimizer; with a rule for one element
/// Lion (Chen et al., 2023), with decoupled weight decay:
///
///     c = beta1 m + (1 - beta1) g;  p <- (1 - rate weight_decay) p - rate sign(c);  m <- beta2 m + (1 - beta2) g
///
/// All elements move by the rate, so the rate is 3 to 10 times smaller than AdamW's, and weight_decay 3 to 10 times
/// larger.
struct lion {
  double learning_rate = 1e-4;
  double beta1 = 0.9, beta2 = 0.99;
  double weight_decay = 0;
  [[no_unique_address]] detail::torch_lr lr{};
  [[no_unique_address]] detail::torch_betas betas{};
  static constexpr int moments = 1;

  GPIPE_COLD void check() const {
    detail::require_share("beta1", beta1);
    detail::require_share("beta2", beta2);
    detail::require_not_negative("weight_decay", weight_decay);
  }

  template <class T>
  struct rule_for {
    static constexpr bool elementwise = true;
    update_operands<T> of;
    T rate, scale;
    detail::average_shares<T> along_shares, moment_shares;
    T shrink;
    GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const {
      const T gradient = of.gradient[i] * scale, moment = of.moment[0][i];
      const T along = along_shares.average(moment, gradient);
      const T sign = static_cast<T>(along > T(0)) - static_cast<T>(along < T(0));
      of.moment[0][i] = moment_shares.average(moment, gradient);
      of.parameter[i] = detail::multiply_add(of.parameter[i], shrink, -rate * sign);
    }
  };
  template <class T>
  rule_for<T> rule(const update_operands<T>& operands, const update_terms& terms) const {
    return {operands,
            static_cast<T>(terms.rate),
            static_cast<T>(terms.scale),
            detail::average_shares<T>(beta1),
            detail::average_shares<T>(beta2),
            static_cast<T>(detail::multiply_add(-terms.rate, weight_decay, 1))};
  }
};

}  // namespace gpipe
