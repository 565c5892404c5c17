#pragma once

#include <cstddef>
#include <cstdint>

#include <gpipe/core/numbers/random.hpp>
#include <gpipe/layer/contract/bound.hpp>
#include <gpipe/layer/contract/elements.hpp>
#include <gpipe/layer/contract/share.hpp>

namespace gpipe {

namespace broken {

template <class Layer, class Input, bool Holds, class... Position>
struct dropout_has_a_probability {
  static_assert((holds<Holds, Position..., Layer, Input>),
                "gpipe: dropout<P>: P must be a probability of at least 0 and less than 1, such as 0.1, or a whole "
                "number of percent in 0 ... 99");
};

}  // namespace broken

namespace detail {

template <class T>
struct dropout_kernels {
  using value_type = T;
  using number = compute_type<T>;
  struct numbers : element_count {
    double dropped, scale;  ///< the probability; 1 / (1 - probability)
  };

  template <class C, class A>
  static void forward(const C& c, const A& a) {
    pass(c, a, a.in(), a.out());
  }
  template <class C, class A>
  static void backward_input(const C& c, const A& a) {
    if (a.in_gradient()) pass(c, a, a.out_gradient(), a.in_gradient());
  }

  template <class C, class A>
  static void pass(const C& c, const A& a, const T* source, T* target) {
    const numbers& sizes = a.sizes();
    if (sizes.dropped > 0 && a.training())
      c.rows(a.samples(), drop{a.random(), source, target, sizes.elements, kept_share(sizes)});
    else c.copy(a.sizes().of(a.samples()), source, target);
  }

  /// Selects the numbers that are kept, and scales them.
  struct kept_share {
    std::uint32_t threshold;
    number scale;
    explicit kept_share(const numbers& sizes)
        : threshold(static_cast<std::uint32_t>(sizes.dropped * 0x1p32)), scale(static_cast<number>(sizes.scale)) {}
    GPIPE_HOST_DEVICE number kept(std::uint32_t word, number x) const {
      const number scaled = x * scale;
      return word < threshold ? number(0) : scaled;
    }
  };

  struct drop {
    random_key key;
    const T* source;
    T* target;
    std::ptrdiff_t elements;
    kept_share share;

    template <class Team>
    GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t sample, const Team& team) const {
      const T* x = source + sample * elements;
      T* y = target + sample * elements;
      const random_key k = key;
      const std::ptrdiff_t quads = elements / 4;
      const kept_share filter = share;
      const auto row = static_cast<std::uint32_t>(sample);
      team.each(quads, [=](std::ptrdiff_t quad) {
        const random_words words = draw(k, row, static_cast<std::uint32_t>(quad));
        for (int e = 0; e < 4; ++e) y[4 * quad + e] = filter.kept(words.word[e], x[4 * quad + e]);
      });
      if (elements % 4 != 0) {
        team.each(elements % 4, [=](std::ptrdiff_t e) {
          const random_words words = draw(k, row, static_cast<std::uint32_t>(quads));
          const std::ptrdiff_t i = 4 * quads + e;
          y[i] = filter.kept(words.word[e], x[i]);
        });
      }
    }
  };
};

}  // namespace detail

/// Training sets each element to 0 with a probability, and scales the others by 1 / (1 - probability); evaluation
/// copies the input. Draws are a function of (seed, step, sample, layer, element), so backward and a recompute draw the
/// same numbers again, and nothing is kept. PyTorch's Dropout(0.1) is `dropout<0.1>`, or in percent `dropout<10>`.
template <detail::share<100> Share = -1>
struct dropout {
  static constexpr double dropped = Share;
  template <class In, class... Position>
  using refusal =
      detail::unless<(0 <= dropped && dropped < 1), broken::dropout_has_a_probability<dropout, In, false, Position...>>;
  static constexpr detail::short_name shown_name = detail::name_with("dropout", Share);

  template <class In>
  struct on;

  template <detail::floating_tensor In>
  struct on<In> : detail::layer_of_elements<on<In>, detail::dropout_kernels<typename In::value_type>, In, 25, 25, 2> {
    static_assert(detail::accepted<refusal<In>>);
    static constexpr typename on::numbers sizes{{on::elements}, dropped, Share.inverse_of_rest()};
  };
};

}  // namespace gpipe
