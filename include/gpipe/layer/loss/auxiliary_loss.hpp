#pragma once

#include <cstddef>
#include <string_view>
#include <utility>

#include <gpipe/core/config.hpp>
#include <gpipe/core/tensors/tensor.hpp>
#include <gpipe/layer/contract/description.hpp>

namespace gpipe::detail {

/// Outside of the layer, whose type has the loss's name: nvcc does not compile a kernel with a text in its type.
template <class T>
struct scale_by {
  T* gradient;
  compute_type<T> factor;
  GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const {
    gradient[i] = static_cast<compute_type<T>>(gradient[i]) * factor;
  }
};

// change: a sum of losses; the factor of the gradients
/// A loss in the middle of a model, with a name and a factor: its gradient is the loss's times the factor.
/// `Item` has both; the partials are without the factor.
template <class Item, class Loss>
struct auxiliary_loss {
  template <class In>
  struct on;

  template <class In>
  requires(requires { sizeof(typename Loss::template on<In>); }) struct on<In> : Loss::template on<In> {
    using loss = typename Loss::template on<In>;
    static constexpr std::string_view loss_name = Item::loss_named;
    static constexpr double loss_factor = Item::factor;

    template <class C, class A>
    static void backward_input(const C& c, const A& a) {
      loss::backward_input(c, a);
      if constexpr (Item::factor != 1) scale(c, a, std::make_integer_sequence<int, parts<In>>{});
    }
    static void backward();  // hides the loss's, whose gradient has no factor

   private:
    template <class C, class A, int... Indices>
    static void scale(const C& c, const A& a, std::integer_sequence<int, Indices...>) {
      (scale_part<Indices>(c, a), ...);
    }
    template <int Index, class C, class A>
    static void scale_part(const C& c, const A& a) {
      using T = typename part<In, Index>::value_type;
      if constexpr (is_floating(dtype_of<T>))
        if (T* gradient = a.template in_gradient<Index>())
          c.each(static_cast<std::ptrdiff_t>(part<In, Index>::size) * a.samples(),
                 scale_by<T>{gradient, static_cast<compute_type<T>>(loss_factor)});
    }
  };
};

}  // namespace gpipe::detail
