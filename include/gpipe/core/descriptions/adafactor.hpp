#pragma once

#include <algorithm>
#include <cmath>

#include <gpipe/core/descriptions/tensor_rule.hpp>
#include <gpipe/core/numbers/math.hpp>
#include <gpipe/core/numbers/multiply_add.hpp>

namespace gpipe::detail::adafactor_kernels {

/// One tensor, as a matrix g of rows x columns, and the scalars of a step. A tensor that is not factored has one row.
/// `sums` contains the sum of r, the sum of squares of the update, the sum of squares of the parameter, then one number
/// per column and one per row.
template <class T>
struct tensor {
  tensor_operands<T> operands;
  std::ptrdiff_t rows, columns;
  double scale, epsilon, share;  ///< share: the weight of the new square in a second moment
  double step, epsilon_parameter, clip;
  average_shares<T> moment_shares;
  T shrink;
  bool scales;

  GPIPE_HOST_DEVICE double* of_columns() const { return operands.sums + 3; }
  GPIPE_HOST_DEVICE double* of_rows() const { return operands.sums + 3 + columns; }
  GPIPE_HOST_DEVICE double square(std::ptrdiff_t i) const {
    const double g = static_cast<double>(operands.gradient[i]) * scale;
    return multiply_add(g, g, epsilon);
  }
  GPIPE_HOST_DEVICE void average(T& mean, double value) const {
    const double before = static_cast<double>(mean);
    mean = static_cast<T>(multiply_add(value - before, share, before));
  }
  // u = g factor, and p moves along u.
  GPIPE_HOST_DEVICE void move(std::ptrdiff_t i, T factor) const {
    T along = operands.gradient[i] * factor;
    if (operands.moment[0] != nullptr) {
      along = moment_shares.average(operands.moment[0][i], along);
      operands.moment[0][i] = along;
    }
    operands.parameter[i] = multiply_add(operands.parameter[i], shrink, -along);
  }
};

// The parts, in the order of an update. With the averages r of rows and c of columns the second moment is
// r c / mean(r), so u = g sqrt(mean(r) / r) / sqrt(c).

template <class T>
struct square_in_column : tensor<T> {
  GPIPE_HOST_DEVICE double operator()(std::ptrdiff_t row, std::ptrdiff_t j) const {
    return this->square(row * this->columns + j);
  }
};
template <class T>
struct average_column : tensor<T> {  // leaves 1 / sqrt(c)
  GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t j) const {
    double& column_value = this->of_columns()[j];
    this->average(this->operands.array[1][j], column_value / static_cast<double>(this->rows));
    column_value = 1 / math::sqrt(static_cast<double>(this->operands.array[1][j]));
  }
};
template <class T>
struct average_row : tensor<T> {
  template <class Team>
  GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t row, const Team& team) const {
    const tensor<T>& m = *this;
    const double sum = team.sum(m.columns, [&m, row](std::ptrdiff_t j) { return m.square(row * m.columns + j); });
    team.each(1, [&m, row, sum](std::ptrdiff_t) {
      m.average(m.operands.array[0][row], sum / static_cast<double>(m.columns));
    });
  }
};
template <class T>
struct row : tensor<T> {
  GPIPE_HOST_DEVICE double operator()(std::ptrdiff_t i) const {
    return static_cast<double>(this->operands.array[0][i]);
  }
  GPIPE_HOST_DEVICE double factor(std::ptrdiff_t i) const {
    return math::sqrt(this->operands.sums[0] / static_cast<double>(this->rows) / (*this)(i));
  }
};
template <class T>
struct squares_in_row : row<T> {
  template <class Team>
  GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i, const Team& team) const {
    const row<T>& m = *this;
    const double factor = m.factor(i) * m.scale;
    const double sum = team.sum(m.columns, [&m, i, factor](std::ptrdiff_t j) {
      const double u = static_cast<double>(m.operands.gradient[i * m.columns + j]) * factor * m.of_columns()[j];
      return u * u;
    });
    team.each(1, [&m, i, sum](std::ptrdiff_t) { m.of_rows()[i] = sum; });
  }
};
template <class T>
struct number_of_row : tensor<T> {
  GPIPE_HOST_DEVICE double operator()(std::ptrdiff_t i) const { return this->of_rows()[i]; }
};
template <class T>
struct average_square : tensor<T> {
  GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const {
    this->average(this->operands.array[2][i], this->square(i));
  }
};
template <class T>
struct square_of_update : tensor<T> {
  GPIPE_HOST_DEVICE double operator()(std::ptrdiff_t i) const {
    const double g = static_cast<double>(this->operands.gradient[i]) * this->scale;
    return g * g / static_cast<double>(this->operands.array[2][i]);
  }
};
template <class T>
struct square_of_parameter : tensor<T> {
  GPIPE_HOST_DEVICE double operator()(std::ptrdiff_t i) const {
    const double p = static_cast<double>(this->operands.parameter[i]);
    return p * p;
  }
};
template <class T>
struct find_step : tensor<T> {  // the factor of u, in sums[1]
  GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t) const {
    double* const sums = this->operands.sums;
    const auto n = static_cast<double>(this->rows * this->columns);
    const double size = math::sqrt(sums[2] / n), length = math::sqrt(sums[1] / n) / this->clip;
    const double relative = this->scales ? (size > this->epsilon_parameter ? size : this->epsilon_parameter) : 1.0;
    sums[1] = this->step * relative / (length > 1 ? length : 1.0) * this->scale;
  }
};
template <class T>
struct move_row : row<T> {
  template <class Team>
  GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i, const Team& team) const {
    const row<T>& m = *this;
    const double factor = m.factor(i) * m.operands.sums[1];
    team.each(m.columns, [&m, i, factor](std::ptrdiff_t j) {
      m.move(i * m.columns + j, static_cast<T>(factor * m.of_columns()[j]));
    });
  }
};
template <class T>
struct move_element : tensor<T> {
  GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const {
    this->move(i, static_cast<T>(this->operands.sums[1] / math::sqrt(static_cast<double>(this->operands.array[2][i]))));
  }
};

}  // namespace gpipe::detail::adafactor_kernels

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
