#pragma once

#include <cstddef>

#include <gpipe/layer/contract/elements.hpp>

namespace gpipe {

/// The product of two equal tensors, element by element: a gate.
struct multiply {
  template <class T>
  struct kind_for {
    using value_type = T;
    using numbers = detail::element_count;
    static constexpr keep keeps{.input = true};

    template <class C, class A>
    static void forward(const C& c, const A& a) {
      detail::each_element(c, a.sizes().of(a.samples()), product{a.template in<0>(), a.template in<1>(), a.out()});
    }
    template <class C, class A>
    static void backward_input(const C& c, const A& a) {
      const std::ptrdiff_t n = a.sizes().of(a.samples());
      if (T* left = a.template in_gradient<0>())
        detail::each_element(c, n, product{a.out_gradient(), a.template in<1>(), left});
      if (T* right = a.template in_gradient<1>())
        detail::each_element(c, n, product{a.out_gradient(), a.template in<0>(), right});
    }

    struct product {
      const T *left, *right;
      T* out;
      GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const {
        using number = compute_type<T>;
        out[i] = number(left[i]) * number(right[i]);
      }
    };
  };

  template <class In>
  struct on;

  template <detail::floating_tensor In>
  struct on<bundle<In, In>>
      : detail::layer_of_elements<on<bundle<In, In>>, kind_for<typename In::value_type>, In, 1, 2, 3> {};
};

}  // namespace gpipe
