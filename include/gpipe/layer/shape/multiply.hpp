#pragma once

#include <cstddef>
#include <cstdint>

#include <gpipe/layer/contract/bound.hpp>
#include <gpipe/layer/contract/operands.hpp>

namespace gpipe {

/// The product of two equal tensors, element by element: a gate.
struct multiply {
  template <class In>
  struct on;

  template <detail::floating_tensor In>
  struct on<bundle<In, In>> {
    using output = In;
    using T = typename In::value_type;
    using number = compute_type<T>;
    static constexpr keep keeps{.input = true};
    static constexpr auto elements = static_cast<std::int64_t>(output::size);
    static constexpr work cost{.forward = elements,
                               .backward_input = 2 * elements,
                               .bytes = static_cast<std::int64_t>(3 * sizeof(T)) * elements};

    template <class C, class A>
    static void forward(const C& c, const A& a) {
      c.each(a.samples() * elements, product{a.template in<0>(), a.template in<1>(), a.out()});
    }
    template <class C, class A>
    static void backward_input(const C& c, const A& a) {
      const auto n = a.samples() * elements;
      if (T* left = a.template in_gradient<0>()) c.each(n, product{a.out_gradient(), a.template in<1>(), left});
      if (T* right = a.template in_gradient<1>()) c.each(n, product{a.out_gradient(), a.template in<0>(), right});
    }

    struct product {
      const T *left, *right;
      T* out;
      GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const { out[i] = number(left[i]) * number(right[i]); }
    };
  };
};

}  // namespace gpipe
