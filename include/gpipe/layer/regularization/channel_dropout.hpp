#pragma once

#include <cstddef>
#include <cstdint>

#include <gpipe/core/numbers/random.hpp>
#include <gpipe/core/tensors/tensor.hpp>
#include <gpipe/layer/contract/bound.hpp>
#include <gpipe/layer/contract/channels.hpp>
#include <gpipe/layer/contract/operands.hpp>
#include <gpipe/layer/contract/share.hpp>

namespace gpipe {

namespace detail {

template <class T>
struct channel_dropout_kernels {
  using value_type = T;
  using number = compute_type<T>;
  struct numbers {
    pixel_strips strips;
    double dropped, scale;  ///< the probability; 1 / (1 - probability)
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
  static void pass(const Context& c, const A& a, const T* source, T* target) {
    const auto& [strips, dropped, scale] = a.sizes();
    if (dropped > 0 && a.training())
      c.rows(strips.rows(a.samples()), drop{a.random(), source, target, strips,
                                            static_cast<std::uint32_t>(dropped * 0x1p32), static_cast<number>(scale)});
    else c.copy(a.samples() * strips.pixels * strips.channels, source, target);
  }

  struct drop {
    random_key key;
    const T* source;
    T* target;
    pixel_strips strips;
    std::uint32_t threshold;
    number kept;
    template <class Team>
    GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t row, const Team& team) const {
      const auto strip = strips[row];
      const T* x = source + strip.element;
      T* y = target + strip.element;
      const random_key k = key;
      const std::uint32_t below = threshold;
      const number factor = kept;
      number scale[std::size_t{pixel_strips::max_lanes}];
      team.each(strip.width, [=, &scale](std::ptrdiff_t lane) {
        const auto channel = static_cast<std::uint32_t>(strip.first + lane);
        const random_words words = draw(k, static_cast<std::uint32_t>(strip.sample), channel / 4);
        scale[lane] = words.word[channel % 4] < below ? number(0) : factor;
      });
      for (std::ptrdiff_t pixel = 0; pixel < strips.pixels; ++pixel, x += strips.channels, y += strips.channels)
        team.each(strip.width, [=, &scale](std::ptrdiff_t lane) { y[lane] = x[lane] * scale[lane]; });
    }
  };
};

}  // namespace detail

/// Training sets whole channels of a sample to 0, each with a probability, and scales the others by
/// 1 / (1 - probability); evaluation copies the input. PyTorch's Dropout2d(0.1) is `channel_dropout<0.1>`, or in
/// percent `channel_dropout<10>`. Draws are a function of (seed, step, sample, layer, channel), so backward and a
/// recompute draw the same numbers again, and nothing is kept.
template <detail::share<100> Share>
struct channel_dropout {
  static constexpr double dropped = Share;
  static_assert(0 <= dropped && dropped < 1,
                "gpipe: channel_dropout<P>: P must be a probability of at least 0 and less than 1, such as 0.1, or a "
                "whole number of "
                "percent in 0 ... 99");
  static constexpr detail::short_name shown_name = detail::name_with("channel_dropout", Share);

  template <class In>
  struct on;

  template <detail::floating_map In>
  struct on<In> : of_kind<on<In>, detail::channel_dropout_kernels<typename In::value_type>> {
    using output = In;
    using T = typename In::value_type;
    static constexpr auto elements = static_cast<std::int64_t>(In::size);
    static constexpr typename on::numbers sizes{
        {In::channels, static_cast<std::ptrdiff_t>(In::pixels)}, dropped, Share.inverse_of_rest()};
    static constexpr work cost{
        .forward = elements, .backward_input = elements, .bytes = static_cast<std::int64_t>(2 * sizeof(T)) * elements};
  };
};

}  // namespace gpipe
