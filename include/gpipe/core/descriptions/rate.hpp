#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numbers>
#include <utility>

#include <gpipe/core/error.hpp>

namespace gpipe {

/// The factor of the optimizer's learning rate at a step, counted from 0.
using rate_schedule = std::function<double(std::uint64_t step)>;

/// A constant factor of 1.
struct constant {
  double operator()(std::uint64_t) const { return 1; }
};

/// Half a cosine from 1 down to `floor` over `steps`, then `floor` (Loshchilov, Hutter, "SGDR", 2016).
struct cosine {
  std::uint64_t steps = 1;
  double floor = 0;
  double operator()(std::uint64_t step) const {
    const double part =
        static_cast<double>((std::min)(step, steps)) / static_cast<double>((std::max)(steps, std::uint64_t{1}));
    return floor + (1 - floor) * 0.5 * (1 + std::cos(std::numbers::pi * part));
  }
};

/// Linear from 1/steps up to 1 over `steps`, then another schedule, which counts its steps from there.
struct warm_up {
  std::uint64_t steps = 0;
  rate_schedule then = constant{};
  double operator()(std::uint64_t step) const {
    return step < steps ? static_cast<double>(step + 1) / static_cast<double>(steps) : then(step - steps);
  }
};

}  // namespace gpipe
