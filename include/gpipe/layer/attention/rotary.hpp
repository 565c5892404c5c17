#pragma once

#include <cstddef>

#include <gpipe/core/config.hpp>
#include <gpipe/core/numbers/math.hpp>
#include <gpipe/core/numbers/multiply_add.hpp>
#include <gpipe/core/tensors/dtype.hpp>

namespace gpipe::detail {

/// Rotary positions (Su et al., 2021) in the layout of halves, as in GPT-NeoX and in Hugging Face's Llama: element i of
/// a head of width w and its partner i + w/2 are turned by an angle that grows with the token's position t,
///
///     angle = t base^(-2 i / w),   (a, b) -> (a cos - b sin, b cos + a sin)
///
/// so that the product of a query and a key depends on the distance of their positions alone. Backward turns back.
///
///     table  [tokens][ cos of w/2 angles | sin of w/2 angles ]
template <class Number>
struct tabulate_angles {
  Number* table;
  int width;
  double base;

  GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const {
    const std::ptrdiff_t half = width / 2, token = i / half, pair = i % half;
    const double angle = static_cast<double>(token) * math::pow(base, static_cast<double>(-2 * pair) / width);
    table[token * width + pair] = static_cast<Number>(math::cos(angle));
    table[token * width + half + pair] = static_cast<Number>(math::sin(angle));
  }
};

/// Turns the first `heads` heads of each row in place, or turns them back.
template <class T>
struct turn_pairs {
  using number = compute_type<T>;
  T* values;
  const number* table;
  std::ptrdiff_t stride;  ///< from row to row
  int heads, width, tokens;
  bool back;

  template <class Team>
  GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t row, const Team& team) const {
    const std::ptrdiff_t half = width / 2;
    const number *cosine = table + row % tokens * width, *sine = cosine + half;
    const number direction = back ? number(-1) : number(1);
    T* x = values + row * stride;
    for (int head = 0; head < heads; ++head, x += width)
      team.each(half, [=](std::ptrdiff_t i) {
        const number a = x[i], b = x[half + i], c = cosine[i], s = direction * sine[i];
        x[i] = T(multiply_add(a, c, -(b * s)));
        x[half + i] = T(multiply_add(b, c, a * s));
      });
  }
};

}  // namespace gpipe::detail
