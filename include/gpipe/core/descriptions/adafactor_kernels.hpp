#pragma once

#include <gpipe/core/descriptions/tensor_rule.hpp>
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
