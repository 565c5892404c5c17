#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>

#include <gpipe/core/descriptions/rate.hpp>
#include <gpipe/core/error.hpp>
#include <gpipe/core/numbers/double_bits.hpp>
#include <gpipe/core/numbers/math.hpp>
#include <gpipe/core/numbers/multiply_add.hpp>
#include <gpipe/core/text/quantity.hpp>

namespace gpipe {

namespace detail {

GPIPE_COLD inline void check_rate_steps(const char* option, std::uint64_t steps) {
  // A negative number, such as -1, has been converted to one of these.
  if (steps < 1 || steps > (std::uint64_t{1} << 62)) throw_error({option, " is ", steps}, {"choose 1 to 2^62 steps"});
}
GPIPE_COLD inline void check_rate_share(const char* option, double value) {
  if (!(value >= 0 && value <= 1 && is_finite(value)))
    throw_error({option, " is ", significant(value, 6)}, {"choose 0 to 1"});
}
GPIPE_COLD inline void check_rate_positive(const char* option, double value) {
  if (!(value > 0 && is_finite(value)))
    throw_error({option, " is ", significant(value, 6)}, {"choose a finite number above 0"});
}

/// From `first` to `last`, by half a cosine, at `part` of the way.
inline double half_cosine(double first, double last, double part) {
  return multiply_add((first - last) * 0.5, 1 + math::cos(std::numbers::pi * part), last);
}
inline double passed_share(std::uint64_t step, std::uint64_t steps) {
  return static_cast<double>((std::min)(step, steps)) / static_cast<double>(steps);
}

GPIPE_INLINE double rate_factor(const rate_schedule& schedule, std::uint64_t step) {
  if (!schedule) throw_error({"learning_rate_schedule is empty"}, {"give a function of the step, such as constant{}"});
  const double factor = schedule(step);
  if (!(factor >= 0 && is_finite(factor)))
    throw_error({"learning_rate_schedule is ", significant(factor, 6), " at step ", step},
                {"return a finite number, 0 or more"});
  return factor;
}

}  // namespace detail

GPIPE_INLINE double linear_decay::operator()(std::uint64_t step) const {
  detail::check_rate_steps("steps of linear_decay", steps);
  detail::check_rate_share("floor of linear_decay", floor);
  return detail::multiply_add(floor - 1, detail::passed_share(step, steps), 1.0);
}

GPIPE_INLINE double cosine::operator()(std::uint64_t step) const {
  detail::check_rate_steps("steps of cosine", steps);
  detail::check_rate_share("floor of cosine", floor);
  return detail::half_cosine(1, floor, detail::passed_share(step, steps));
}

GPIPE_INLINE double staircase::operator()(std::uint64_t step) const {
  detail::check_rate_steps("steps of staircase", steps);
  detail::check_rate_positive("factor of staircase", factor);
  detail::check_rate_share("floor of staircase", floor);
  const std::uint64_t stairs = step / steps;
  return (std::max)(floor, math::pow(factor, static_cast<double>(stairs)));
}

GPIPE_INLINE double exponential::operator()(std::uint64_t step) const {
  detail::check_rate_steps("steps of exponential", steps);
  detail::check_rate_positive("factor of exponential", factor);
  detail::check_rate_share("floor of exponential", floor);
  return (std::max)(floor, math::pow(factor, static_cast<double>(step) / static_cast<double>(steps)));
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
  const double end = static_cast<double>(steps) - 1, top = detail::multiply_add(rise, static_cast<double>(steps), -1.0);
  const double t = (std::min)(static_cast<double>(step), end);
  if (t <= top && top > 0) return detail::half_cosine(first, 1, t / top);
  const double peak = (std::max)(top, 0.0);  // a rise of less than one step begins at 1
  return end > peak ? detail::half_cosine(1, last, (t - peak) / (end - peak)) : last;
}

GPIPE_INLINE double warm_up::operator()(std::uint64_t step) const {
  detail::check_rate_steps("steps of warm_up", steps);
  if (!then) detail::throw_error({"then of warm_up is empty"}, {"give the schedule that follows, such as constant{}"});
  return step < steps ? static_cast<double>(step + 1) / static_cast<double>(steps) : then(step - steps);
}

}  // namespace gpipe
