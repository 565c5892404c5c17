#pragma once

#include <cmath>
#include <numbers>

#include <gpipe/core/random.hpp>
#include <gpipe/layer/description.hpp>

namespace gpipe {

namespace detail {

// A double in (0, 1) from two words.
inline double open_uniform(std::uint32_t high, std::uint32_t low) {
  return (static_cast<double>(high) * 4294967296.0 + low + 0.5) * 0x1p-64;
}

}  // namespace detail

/// The first value of element `i` of parameter number `index` of slot `slot`: a function of these and the seed alone,
/// so that no cut changes it. Drawn in double, then rounded.
inline double first_value(const initialiser& how, std::uint64_t seed, int slot, int index, std::size_t i) {
  using enum initialiser::kind;
  if (how.drawn == zeros) return 0;
  if (how.drawn == ones) return 1;
  const random_key key{seed, random_key::initialising, static_cast<std::uint32_t>(slot), 0};
  const auto words = draw(key, static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(i));
  const double bound = how.scale / std::sqrt(static_cast<double>(how.fan_in));
  const double u = detail::open_uniform(words.word[0], words.word[1]);
  if (how.drawn == uniform) return bound * (2 * u - 1);
  // Box and Muller's transform.
  const double v = detail::open_uniform(words.word[2], words.word[3]);
  return bound * std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
}

/// Writes the first values of a slot's parameters or state, one aligned array behind the other. They are numbered from
/// `before` on.
GPIPE_ONCE inline void first_values(dtype type, const parameter* list, int count, std::uint64_t seed, int slot,
                                    int before, std::byte* at) {
  for (int p = 0; p < count; ++p) {
    const std::size_t n = list[p].extents.size();
    for (std::size_t i = 0; i < n; ++i) {
      const double x = first_value(list[p].first, seed, slot, before + p, i);
      if (type == dtype::float64) reinterpret_cast<double*>(at)[i] = x;
      else reinterpret_cast<float*>(at)[i] = static_cast<float>(x);
    }
    at += aligned(n * bytes_of(type));
  }
}

}  // namespace gpipe
