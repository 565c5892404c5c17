#pragma once

#include <cstddef>

#include <gpipe/layer/contract/elements.hpp>
#include <gpipe/layer/contract/pointwise.hpp>

namespace gpipe {

/// y = x if x > 0, else x PerMille / 1000: PyTorch's LeakyReLU, whose slope of 0.01 is `leaky_relu<10>`, the default.
/// Backward reads the output, which has the input's sign.
template <int PerMille = 10>
struct leaky_relu {
  static_assert(0 < PerMille && PerMille < 1000, "gpipe: leaky_relu<PerMille>: PerMille must be in 1 ... 999");

  template <class T>
  static constexpr T slope = T(PerMille) / T(1000);

  /// For layers that apply the function among other things: `feed_forward<2048, leaky_relu<10>>`.
  template <class T>
  GPIPE_HOST_DEVICE static value_and_derivative<T> both(T x) {
    return {x > T(0) ? x : x * slope<T>, x > T(0) ? T(1) : slope<T>};
  }

  template <class T>
  struct kind_for {
    using value_type = T;
    using numbers = detail::element_count;
    static constexpr keep keeps{.output = true};

    template <class C, class A>
    static void forward(const C& c, const A& a) {
      c.each(a.sizes().of(a.samples()), scale{a.in(), a.in(), a.out()});
    }
    template <class C, class A>
    static void backward_input(const C& c, const A& a) {
      if (a.in_gradient()) c.each(a.sizes().of(a.samples()), scale{a.out(), a.out_gradient(), a.in_gradient()});
    }

    struct scale {
      const T *sign, *from;
      T* into;
      GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const {
        using number = compute_type<T>;
        const number x = from[i];
        into[i] = sign[i] > number(0) ? x : x * slope<number>;
      }
    };
  };

  template <class In>
  struct on;

  template <detail::floating_tensor In>
  struct on<In> : detail::layer_of_elements<on<In>, kind_for<typename In::value_type>, In, 1, 1, 2> {};
};

}  // namespace gpipe
