#pragma once

#include <cstddef>
#include <cstdint>

#include <gpipe/core/numbers/random.hpp>
#include <gpipe/core/tensors/feature_map.hpp>
#include <gpipe/layer/contract/bound.hpp>
#include <gpipe/layer/contract/channels.hpp>
#include <gpipe/layer/contract/operands.hpp>

namespace gpipe {

namespace detail {

template <class T>
struct channel_dropout_kernels {
  using value_type = T;
  using number = compute_type<T>;
  struct numbers {
    pixel_strips strips;
    int percent;
  };

  template <class Context, class A>
  static void forward(const Context& c, const A& a) {
    pass(c, a, a.in(), a.out());
  }
  template <class Context, class A>
  static void backward_input(const Context& c, const A& a) {
    if (a.in_gradient()) pass(c, a, a.out_gradient(), a.in_gradient());
  }

  template <class Context, class A>
  static void pass(const Context& c, const A& a, const T* from, T* into) {
    const auto& [strips, percent] = a.sizes();
    if (percent > 0 && a.training()) c.rows(strips.rows(a.samples()), drop{a.random(), from, into, strips, percent});
    else c.copy(a.samples() * strips.pixels * strips.channels, from, into);
  }

  struct drop {
    random_key key;
    const T* from;
    T* into;
    pixel_strips strips;
    int percent;
    template <class Team>
    GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t row, const Team& team) const {
      const auto at = strips[row];
      const T* x = from + at.at;
      T* y = into + at.at;
      const random_key k = key;
      const auto threshold = static_cast<std::uint32_t>((std::uint64_t(percent) << 32) / 100);
      const number kept = number(100) / number(100 - percent);
      number scale[std::size_t{pixel_strips::max_lanes}];
      team.each(at.width, [=, &scale](std::ptrdiff_t lane) {
        const auto channel = static_cast<std::uint32_t>(at.first + lane);
        const random_words words = draw(k, static_cast<std::uint32_t>(at.sample), channel / 4);
        scale[lane] = words.word[channel % 4] < threshold ? number(0) : kept;
      });
      for (std::ptrdiff_t pixel = 0; pixel < strips.pixels; ++pixel, x += strips.channels, y += strips.channels)
        team.each(at.width, [=, &scale](std::ptrdiff_t lane) { y[lane] = x[lane] * scale[lane]; });
    }
  };
};

}  // namespace detail

/// Training sets whole channels of a sample to 0, each with a probability of `Percent` / 100, and scales the others by
/// 1 / (1 - probability); evaluation copies the input. PyTorch's Dropout2d. Draws are a function of (seed, step,
/// sample, layer, channel), so backward and a recompute draw the same numbers again, and nothing is kept.
template <int Percent>
struct channel_dropout {
  static_assert(0 <= Percent && Percent < 100, "gpipe: channel_dropout<Percent>: Percent must be in 0 ... 99");

  template <class In>
  struct on;

  template <detail::floating_map In>
  struct on<In> : of_kind<on<In>, detail::channel_dropout_kernels<typename In::value_type>> {
    using output = In;
    using T = typename In::value_type;
    static constexpr auto elements = static_cast<std::int64_t>(In::size);
    static constexpr typename on::numbers sizes{{In::channels, static_cast<std::ptrdiff_t>(In::pixels)}, Percent};
    static constexpr work cost{
        .forward = elements, .backward_input = elements, .bytes = static_cast<std::int64_t>(2 * sizeof(T)) * elements};
  };
};

}  // namespace gpipe
