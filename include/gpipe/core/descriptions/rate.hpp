#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numbers>

#include <gpipe/core/build_mode.hpp>
#include <gpipe/core/error.hpp>
#include <gpipe/core/text/quantity.hpp>

namespace gpipe {

/// The factor of the optimizer's learning rate at a step, counted from 0: one of the schedules below, or any function.
/// A schedule throws `error` if one of its settings is invalid; a trainer calls it once when it is made.
///
///     constant    linear   cosine    staircase  exponential  inverse_square_root  one_cycle
///     ---------   \        -.        --.        \               .                     .-.
///                  \         \         '--.      '.            / '.                  /   \        .
///                   \___      '.__        '--.     '-.___     /    '--.___         .'     '-.___  .
using rate_schedule = std::function<double(std::uint64_t step)>;

/// A constant factor of 1.
struct constant {
  double operator()(std::uint64_t) const { return 1; }
};

/// A line from 1 down to `floor` over `steps`, then `floor`.
struct linear_decay {
  std::uint64_t steps = 1;
  double floor = 0;
  double operator()(std::uint64_t step) const;
};

/// Half a cosine from 1 down to `floor` over `steps`, then `floor` (Loshchilov, Hutter, "SGDR", 2016).
struct cosine {
  std::uint64_t steps = 1;
  double floor = 0;
  double operator()(std::uint64_t step) const;
};

/// Times `factor` after each `steps` steps, but not below `floor`: max(floor, factor^(step / steps rounded down)).
struct staircase {
  std::uint64_t steps = 1;
  double factor = 0.1;
  double floor = 0;
  double operator()(std::uint64_t step) const;
};

/// Times `factor` over each `steps` steps, a little in each step: max(floor, factor^(step / steps)).
struct exponential {
  std::uint64_t steps = 1;
  double factor = 0.1;
  double floor = 0;
  double operator()(std::uint64_t step) const;
};

/// The schedule of a Transformer of this width (Vaswani et al., "Attention is all you need", 2017), with t = step + 1:
///
///     width^(-1/2) min(t warm_up^(-3/2), t^(-1/2)),   at most (width warm_up)^(-1/2), at t = warm_up
///
/// The paper's optimizer has the learning rate 1. A width of 1 gives the plain inverse square root.
struct inverse_square_root {
  std::uint64_t warm_up = 4000;
  std::uint64_t width = 1;
  double operator()(std::uint64_t step) const;
};

/// Half a cosine up to 1, which is reached after `rise` of all steps, and half a cosine down (Smith, Topin,
/// "Super-convergence", 2017). It begins at 1 / `first_divisor` and ends, at the last of `steps`, at
/// 1 / (`first_divisor` `last_divisor`). The factors are those of PyTorch's OneCycleLR over its max_lr.
struct one_cycle {
  std::uint64_t steps = 2;
  double rise = 0.3;
  double first_divisor = 25;
  double last_divisor = 1e4;
  double operator()(std::uint64_t step) const;
};

/// Linear from 1/steps up to 1 over `steps`, then another schedule, which counts its steps from there.
struct warm_up {
  std::uint64_t steps = 0;
  rate_schedule then = constant{};
  double operator()(std::uint64_t step) const;
};

namespace detail {

/// The factor of a schedule at a step. Throws `error` if the schedule is empty, or if the factor is below 0 or not
/// finite.
double rate_factor(const rate_schedule& schedule, std::uint64_t step);

}  // namespace detail

#if GPIPE_BODIES
namespace detail {

// Conditions are written so that NaN does not meet them.
GPIPE_COLD inline void check_rate_steps(const char* option, std::uint64_t steps) {
  // A negative number, such as -1, has become one of these.
  if (steps < 1 || steps > (std::uint64_t{1} << 62)) throw_error({option, " is ", steps}, {"choose 1 to 2^62 steps"});
}
GPIPE_COLD inline void check_rate_share(const char* option, double value) {
  if (!(value >= 0 && value <= 1)) throw_error({option, " is ", significant(value, 6)}, {"choose 0 to 1"});
}
GPIPE_COLD inline void check_rate_positive(const char* option, double value) {
  if (!(value > 0 && std::isfinite(value)))
    throw_error({option, " is ", significant(value, 6)}, {"choose a finite number above 0"});
}

/// From `first` to `last`, by half a cosine, at `part` of the way.
inline double half_cosine(double first, double last, double part) {
  return last + (first - last) * 0.5 * (1 + std::cos(std::numbers::pi * part));
}
inline double passed_share(std::uint64_t step, std::uint64_t steps) {
  return static_cast<double>((std::min)(step, steps)) / static_cast<double>(steps);
}

GPIPE_INLINE double rate_factor(const rate_schedule& schedule, std::uint64_t step) {
  if (!schedule) throw_error({"learning_rate_schedule is empty"}, {"give a function of the step, such as constant{}"});
  const double factor = schedule(step);
  if (!(factor >= 0 && std::isfinite(factor)))
    throw_error({"learning_rate_schedule is ", significant(factor, 6), " at step ", step},
                {"return a finite number, 0 or more"});
  return factor;
}

}  // namespace detail

GPIPE_INLINE double linear_decay::operator()(std::uint64_t step) const {
  detail::check_rate_steps("steps of linear_decay", steps);
  detail::check_rate_share("floor of linear_decay", floor);
  return 1 + (floor - 1) * detail::passed_share(step, steps);
}

GPIPE_INLINE double cosine::operator()(std::uint64_t step) const {
  detail::check_rate_steps("steps of cosine", steps);
  detail::check_rate_share("floor of cosine", floor);
  return floor + (1 - floor) * 0.5 * (1 + std::cos(std::numbers::pi * detail::passed_share(step, steps)));
}

GPIPE_INLINE double staircase::operator()(std::uint64_t step) const {
  detail::check_rate_steps("steps of staircase", steps);
  detail::check_rate_positive("factor of staircase", factor);
  detail::check_rate_share("floor of staircase", floor);
  const std::uint64_t stairs = step / steps;
  return (std::max)(floor, std::pow(factor, static_cast<double>(stairs)));
}

GPIPE_INLINE double exponential::operator()(std::uint64_t step) const {
  detail::check_rate_steps("steps of exponential", steps);
  detail::check_rate_positive("factor of exponential", factor);
  detail::check_rate_share("floor of exponential", floor);
  return (std::max)(floor, std::pow(factor, static_cast<double>(step) / static_cast<double>(steps)));
}

GPIPE_INLINE double inverse_square_root::operator()(std::uint64_t step) const {
  detail::check_rate_steps("warm_up of inverse_square_root", warm_up);
  detail::check_rate_steps("width of inverse_square_root", width);
  const double t = static_cast<double>(step) + 1, w = static_cast<double>(warm_up);
  return (std::min)(t / (w * std::sqrt(w)), 1 / std::sqrt(t)) / std::sqrt(static_cast<double>(width));
}

GPIPE_INLINE double one_cycle::operator()(std::uint64_t step) const {
  detail::check_rate_steps("steps of one_cycle", steps);
  detail::check_rate_share("rise of one_cycle", rise);
  detail::check_rate_positive("first_divisor of one_cycle", first_divisor);
  detail::check_rate_positive("last_divisor of one_cycle", last_divisor);
  const double first = 1 / first_divisor, last = first / last_divisor;
  const double end = static_cast<double>(steps) - 1, top = rise * static_cast<double>(steps) - 1;
  const double t = (std::min)(static_cast<double>(step), end);
  if (t <= top && top > 0) return detail::half_cosine(first, 1, t / top);
  const double from = (std::max)(top, 0.0);  // a rise of less than one step begins at 1
  return end > from ? detail::half_cosine(1, last, (t - from) / (end - from)) : last;
}

GPIPE_INLINE double warm_up::operator()(std::uint64_t step) const {
  if (steps > 0) detail::check_rate_steps("steps of warm_up", steps);
  if (!then) detail::throw_error({"then of warm_up is empty"}, {"give the schedule that follows, such as constant{}"});
  return step < steps ? static_cast<double>(step + 1) / static_cast<double>(steps) : then(step - steps);
}
#endif

}  // namespace gpipe
