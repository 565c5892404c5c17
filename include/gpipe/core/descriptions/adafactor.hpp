#pragma once

#include <algorithm>
#include <cmath>

#include <gpipe/core/descriptions/adafactor_kernels.hpp>
#include <gpipe/core/numbers/math.hpp>
#include <gpipe/core/numbers/multiply_add.hpp>

namespace gpipe {

namespace detail {

template <bool Momentum>
struct adafactor_of {
  double learning_rate = 1;     ///< a factor of the relative step, or the step itself
  bool relative_step = true;    ///< the step is learning_rate min(1e-2, 1 / sqrt(t)), else learning_rate
  bool scale_parameter = true;  ///< the step is multiplied by max(epsilon_parameter, rms(p))
  double clip = 1;              ///< the largest rms of an update
  double decay_power = 0.8;
  double momentum = Momentum ? 0.9 : 0;
  double epsilon = 1e-30, epsilon_parameter = 1e-3;
  double weight_decay = 0;  ///< decoupled: p <- (1 - step weight_decay) p, with the step before it is multiplied
  [[no_unique_address]] detail::torch_lr lr{};

  static constexpr int moments = Momentum ? 1 : 0;
  static constexpr int arrays = 3;
  static constexpr tensor_array array(const tensor_extents& tensor, int k) {
    const bool factored = tensor.rank == 2;
    if (k == 0) return {"row", factored ? tensor_extents{tensor.extents[0]} : tensor_extents{0}};
    if (k == 1) return {"column", factored ? tensor_extents{tensor.extents[1]} : tensor_extents{0}};
    return {"square", factored ? tensor_extents{0} : tensor};
  }
  static constexpr std::size_t sums(const tensor_extents& tensor) {
    return 3 + (tensor.rank == 2 ? static_cast<std::size_t>(tensor.extents[0] + tensor.extents[1]) : 0);
  }

  GPIPE_COLD void check() const {
    require_positive("clip", clip);
    require_positive("decay_power", decay_power);
    require_share("momentum", momentum);
    if (!Momentum && momentum != 0) refuse_setting("momentum", momentum, "choose adafactor_with_momentum, or 0");
    require_positive("epsilon", epsilon);
    require_positive("epsilon_parameter", epsilon_parameter);
    require_not_negative("weight_decay", weight_decay);
  }

  template <class C, class T>
  void update(const C& c, const tensor_operands<T>& operands, const update_terms& terms) const {
    namespace k = adafactor_kernels;
    const auto t = static_cast<double>(terms.step);
    const double step = terms.rate * (relative_step ? (std::min)(1e-2, 1 / std::sqrt(t)) : 1.0);
    const auto n = static_cast<std::ptrdiff_t>(operands.extents.size());
    const bool factored = operands.extents.rank == 2;
    const k::tensor<T> matrix{operands,
                              factored ? operands.extents.extents[0] : 1,
                              factored ? operands.extents.extents[1] : n,
                              terms.scale,
                              epsilon,
                              math::pow(t, -decay_power),
                              step,
                              epsilon_parameter,
                              clip,
                              average_shares<T>(momentum),
                              static_cast<T>(multiply_add(-step, weight_decay, 1)),
                              scale_parameter};
    if (factored) {
      c.fill(matrix.columns, 0.0, matrix.of_columns());
      c.columns(matrix.rows, matrix.columns, k::square_in_column<T>{matrix}, matrix.of_columns());
      c.each(matrix.columns, k::average_column<T>{matrix});
      c.rows(matrix.rows, k::average_row<T>{matrix});
      c.sum(matrix.rows, k::row<T>{matrix}, operands.sums);
      c.rows(matrix.rows, k::squares_in_row<T>{{matrix}});
      c.sum(matrix.rows, k::number_of_row<T>{matrix}, operands.sums + 1);
    } else {
      c.each(n, k::average_square<T>{matrix});
      c.sum(n, k::square_of_update<T>{matrix}, operands.sums + 1);
    }
    if (scale_parameter) c.sum(n, k::square_of_parameter<T>{matrix}, operands.sums + 2);
    c.each(1, k::find_step<T>{matrix});
    if (factored) c.rows(matrix.rows, k::move_row<T>{{matrix}});
    else c.each(n, k::move_element<T>{matrix});
  }
};

}  // namespace detail

/// Adafactor (Shazeer, Stern, 2018), with the defaults of Tensor2Tensor. A matrix of n x m has n + m numbers in place
/// of Adam's two arrays: r and c, the moving means of the squares s = g^2 + epsilon in each row and column.
///
///     b = 1 - t^-decay_power;  r <- b r + (1 - b) row means of s;  c <- b c + (1 - b) column means of s
///     u = g / sqrt(r c / mean(r));  u <- u / max(1, rms(u) / clip)
///     p <- p - step max(epsilon_parameter, rms(p)) u,  step = learning_rate min(1e-2, 1 / sqrt(t))
///
/// A tensor of another rank keeps the moving mean of s itself, as in Tensor2Tensor. t is counted from 1. To choose the
/// rate: `adafactor{.learning_rate = 1e-3, .relative_step = false}`.
using adafactor = detail::adafactor_of<false>;
/// The same with a moving mean of the updates, which is an array of the parameters' size:
/// m <- momentum m + (1 - momentum) update;  p <- p - m.
using adafactor_with_momentum = detail::adafactor_of<true>;

}  // namespace gpipe
