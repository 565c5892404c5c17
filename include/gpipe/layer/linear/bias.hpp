#pragma once

#include <cstddef>
#include <cstdint>

#include <gpipe/layer/contract/bound.hpp>
#include <gpipe/layer/contract/extents.hpp>
#include <gpipe/layer/contract/operands.hpp>

namespace gpipe {

/// y = x + b, with a trained number for each element of the last extent, N; b begins at 0.
///
///     input and output tensor<T, ..., N>, bias {N}
struct bias {
  template <class In>
  struct on;

  template <class T, int... Extents>
  requires(sizeof...(Extents) > 0 && detail::is_floating(dtype_of<T>)) struct on<tensor<T, Extents...>> {
    using output = tensor<T, Extents...>;
    static constexpr int N = detail::last_extent<output>, rows = detail::rows_in<output>;

    static constexpr parameter parameters[] = {{"bias", {N}, initializer::zeros()}};
    static constexpr auto elements = static_cast<std::int64_t>(output::size);
    static constexpr work cost{.forward = elements,
                               .backward_parameters = elements,
                               .bytes = static_cast<std::int64_t>(2 * sizeof(T)) * elements};

    template <class C, class A>
    static void forward(const C& c, const A& a) {
      c.rows(std::ptrdiff_t{a.samples()} * rows,
             detail::add_rows_of_table<T>{a.in(), a.template parameter<0>(), 1, N, a.out()});
    }
    template <class C, class A>
    static void backward_input(const C& c, const A& a) {
      if (a.in_gradient()) c.copy(a.samples() * elements, a.out_gradient(), a.in_gradient());
    }
    template <class C, class A>
    static void backward_parameters(const C& c, const A& a) {
      c.columns(std::ptrdiff_t{a.samples()} * rows, N, detail::row_entries<T>{a.out_gradient(), N},
                a.template gradient<0>());
    }
  };
};

}  // namespace gpipe
