#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include <gpipe/core/descriptions/tensor_rule.hpp>
#include <gpipe/device/host/context.hpp>

namespace laws {

// Twenty steps of an optimizer on six numbers, of which independent implementations have the results:
//
//     p_i = 0.5 cos(0.9 i) + 0.1;  in step t = 1 ... 20:  g_i = sin(1.3 i + 0.7 t + 0.4) + 0.3 cos(2.1 t (i + 1))

inline constexpr int numbers = 6;
using six = std::array<double, numbers>;

inline double gradient_at(int i, int t) {
  return std::sin(1.3 * i + 0.7 * t + 0.4) + 0.3 * std::cos(2.1 * t * (i + 1));
}

/// The sums of gradients are of two samples, and the rule has to halve them.
template <class T, class Optimizer>
six after_twenty_steps(const Optimizer& optimizer, const gpipe::tensor_extents& extents = {2, 3}) {
  T p[numbers], g[numbers], m[gpipe::max_moments][numbers]{};
  for (int i = 0; i < numbers; ++i) p[i] = static_cast<T>(0.5 * std::cos(0.9 * i) + 0.1);
  if constexpr (requires { Optimizer::first_moments[0]; })
    for (int k = 0; k < Optimizer::moments; ++k)
      std::fill_n(m[k], numbers, static_cast<T>(Optimizer::first_moments[k]));
  std::vector<T> arrays(64);
  std::vector<double> sums(64, NAN);  // a rule must not read what it has not written
  for (int t = 1; t <= 20; ++t) {
    for (int i = 0; i < numbers; ++i) g[i] = static_cast<T>(2 * gradient_at(i, t));
    const gpipe::update_terms now{t, optimizer.learning_rate, 0.5};
    if constexpr (gpipe::tensor_rule<Optimizer>) {
      gpipe::tensor_operands<T> of{extents, p, g};
      for (int k = 0; k < Optimizer::moments; ++k) of.moment[k] = m[k];
      std::size_t at = 0;
      for (int k = 0; k < Optimizer::arrays; ++k) {
        const std::size_t size = Optimizer::array(extents, k).extents.size();
        if (size > 0) of.array[k] = arrays.data() + at;
        at += size;
      }
      of.sums = sums.data();
      optimizer.update(gpipe::host::context{}, of, now);
    } else {
      gpipe::update_operands<T> of{p, g, {}};
      for (int k = 0; k < Optimizer::moments; ++k) of.moment[k] = m[k];
      const auto rule = optimizer.template rule<T>(of, now);
      for (int i = 0; i < numbers; ++i) rule(i);
    }
  }
  six found{};
  std::copy_n(p, numbers, found.begin());
  return found;
}

/// In double to 1e-12 of each number; in float to 1e-6 of the largest, because numbers near zero have cancelled.
template <class Optimizer>
void agrees_with(const six& expected, const Optimizer& optimizer, const gpipe::tensor_extents& extents = {2, 3}) {
  const six doubles = after_twenty_steps<double>(optimizer, extents),
            floats = after_twenty_steps<float>(optimizer, extents);
  double largest = 0;
  for (const double x : expected) largest = (std::max)(largest, std::fabs(x));
  for (std::size_t i = 0; i < numbers; ++i) {
    CAPTURE(i);
    CHECK(std::fabs(doubles[i] - expected[i]) <= 1e-12 * std::fabs(expected[i]));
    CHECK(std::fabs(floats[i] - expected[i]) <= 1e-6 * largest);
  }
}

/// `check()` names the setting and its value.
template <class Optimizer>
void refuses(const Optimizer& optimizer, const char* what) {
  CHECK_THROWS_WITH_AS(optimizer.check(), what, gpipe::error);
}

}  // namespace laws
