#pragma once

#include <cstdint>
#include <functional>

#include <gpipe/core/config.hpp>

namespace gpipe {

/// The factor of the optimizer's learning rate at a step, counted from 0: one of the schedules below, or any function.
/// A schedule throws `error` if one of its settings is invalid; a trainer calls it once when it is made.
///
///     constant    linear   cosine    staircase  exponential  inverse_square_root  one_cycle
///     ---------   \        -.        --.        \               .                     .-.
///                  \         \         '--.      '.            / '.                  /   \        .
///                   \___      '.__        '--.     '-.___     /    '--.___         .'     '-.___  .
using rate_schedule = std::function<double(std::uint64_t step)>;

// change: a learning-rate schedule
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
/// 1 / (`first_divisor` `last_divisor`). The factors are PyTorch's OneCycleLR divided by its max_lr.
struct one_cycle {
  std::uint64_t steps = 2;
  double rise = 0.3;
  double first_divisor = 25;
  double last_divisor = 1e4;
  double operator()(std::uint64_t step) const;
};

/// Linear from 1/steps up to 1 over `steps`, then another schedule, which counts its steps from there.
struct warm_up {
  std::uint64_t steps = 1;
  rate_schedule then = constant{};
  double operator()(std::uint64_t step) const;
};

namespace detail {

/// The factor of a schedule at a step. Throws `error` if the schedule is empty, or if the factor is below 0 or not
/// finite.
double rate_factor(const rate_schedule& schedule, std::uint64_t step);

}  // namespace detail

}  // namespace gpipe

#if !GPIPE_COMPILED
#include <gpipe/core/descriptions/rate-inl.hpp>
#endif
