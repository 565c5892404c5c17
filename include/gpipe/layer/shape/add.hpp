#pragma once

#include <cstddef>

#include <gpipe/layer/contract/elements.hpp>

namespace gpipe {

/// The sum of two equal tensors: the end of a residual connection.
struct add {
  template <class T>
  struct kind_for {
    using value_type = T;
    using numbers = detail::element_count;

    template <class C, class A>
    static void forward(const C& c, const A& a) {
      detail::each_element(c, a.sizes().of(a.samples()), sum{a.template in<0>(), a.template in<1>(), a.out()});
    }
    template <class C, class A>
    static void backward_input(const C& c, const A& a) {
      for (T* gradient : {a.template in_gradient<0>(), a.template in_gradient<1>()})
        if (gradient && gradient != a.out_gradient()) c.copy(a.sizes().of(a.samples()), a.out_gradient(), gradient);
    }

    struct sum {
      const T *left, *right;
      T* out;
      GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const { out[i] = left[i] + right[i]; }
    };
  };

  template <class In>
  struct on;

  template <detail::floating_tensor In>
  struct on<bundle<In, In>>
      : detail::layer_of_elements<on<bundle<In, In>>, kind_for<typename In::value_type>, In, 1, 0, 3> {};
};

}  // namespace gpipe
