#pragma once

#include <cstddef>
#include <cstdint>

#include <gpipe/core/numbers/random.hpp>
#include <gpipe/core/tensors/feature_map.hpp>
#include <gpipe/layer/contract/bound.hpp>
#include <gpipe/layer/contract/channels.hpp>
#include <gpipe/layer/contract/operands.hpp>

namespace gpipe {

/// Training sets whole channels of a sample to 0, each with a probability of `Percent` / 100, and scales the others by
/// 1 / (1 - probability); evaluation copies the input. PyTorch's Dropout2d. Draws are a function of (seed, step,
/// sample, slot, channel), so backward and a recompute draw the same numbers again, and nothing is kept.
template <int Percent>
struct channel_dropout {
  static_assert(0 <= Percent && Percent < 100, "gpipe: channel_dropout<Percent>: Percent must be in 0 ... 99");

  template <class In>
  struct on;

  template <detail::floating_map In>
  struct on<In> {
    using output = In;
    using T = typename In::value_type;
    using number = compute_type<T>;
    static constexpr int C = In::channels, lanes = detail::lanes_for(C), strips = (C + lanes - 1) / lanes;
    static constexpr auto pixels = static_cast<std::ptrdiff_t>(In::pixels);
    static constexpr auto elements = static_cast<std::int64_t>(In::size);
    static constexpr work cost{
        .forward = elements, .backward_input = elements, .bytes = static_cast<std::int64_t>(2 * sizeof(T)) * elements};

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
      if (Percent > 0 && a.training()) c.rows(std::ptrdiff_t{a.samples()} * strips, drop{a.random(), from, into});
      else c.copy(a.samples() * elements, from, into);
    }

    // A row is up to 256 channels of a sample, side by side in each pixel.
    struct drop {
      random_key key;
      const T* from;
      T* into;
      template <class Team>
      GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t row, const Team& team) const {
        const std::ptrdiff_t sample = row / strips, first = row % strips * lanes,
                             width = C - first < lanes ? C - first : lanes;
        const T* x = from + sample * pixels * C + first;
        T* y = into + sample * pixels * C + first;
        const random_key k = key;
        number scale[std::size_t{lanes}];
        team.each(width, [=, &scale](std::ptrdiff_t lane) {
          const auto channel = static_cast<std::uint32_t>(first + lane);
          const random_words words = draw(k, static_cast<std::uint32_t>(sample), channel / 4);
          constexpr auto threshold = static_cast<std::uint32_t>((std::uint64_t{Percent} << 32) / 100);
          scale[lane] = words.word[channel % 4] < threshold ? number(0) : number(100) / number(100 - Percent);
        });
        for (std::ptrdiff_t pixel = 0; pixel < pixels; ++pixel, x += C, y += C)
          team.each(width, [=, &scale](std::ptrdiff_t lane) { y[lane] = x[lane] * scale[lane]; });
      }
    };
  };
};

}  // namespace gpipe
