#pragma once

#include <cstddef>
#include <cstdint>

#include <gpipe/layer/contract/bound.hpp>
#include <gpipe/layer/contract/operands.hpp>

namespace gpipe {

/// The sum of two equal tensors: the end of a residual connection.
struct add {
  // The same function for all shapes, so that it is compiled once.
  template <class T>
  struct sum {
    const T *left, *right;
    T* out;
    GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const { out[i] = left[i] + right[i]; }
  };

  template <class In>
  struct on;

  template <detail::floating_tensor In>
  struct on<bundle<In, In>> {
    using output = In;
    using T = typename In::value_type;
    static constexpr auto elements = static_cast<std::int64_t>(output::size);
    static constexpr work cost{.forward = elements, .bytes = static_cast<std::int64_t>(3 * sizeof(T)) * elements};

    template <class C, class A>
    static void forward(const C& c, const A& a) {
      c.each(a.samples() * elements, sum<T>{a.template in<0>(), a.template in<1>(), a.out()});
    }
    template <class C, class A>
    static void backward_input(const C& c, const A& a) {
      for (T* into : {a.template in_gradient<0>(), a.template in_gradient<1>()})
        if (into && into != a.out_gradient()) c.copy(a.samples() * elements, a.out_gradient(), into);
    }
  };
};

}  // namespace gpipe
