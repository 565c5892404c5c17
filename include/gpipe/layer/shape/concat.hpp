#pragma once

#include <cstdint>
#include <utility>

#include <gpipe/layer/contract/bound.hpp>
#include <gpipe/layer/contract/operands.hpp>
#include <gpipe/layer/shape/slices.hpp>

namespace gpipe {

/// Joins the tensors of its input along one extent: `concat<>` along the last, `concat<0>` along the first (channels).
/// The other extents must be equal.
///
///     tensor<float, 8, 3>, tensor<float, 8, 5>:  concat<> gives tensor<float, 8, 8>
template <int Axis = -1>
struct concat {
  template <class In>
  struct on;

  template <class First, class... Rest>
  requires((detail::differ_only_in<First, Rest>(detail::axis_of(Axis, First::rank)) && ...) && sizeof...(Rest) > 0 &&
           detail::is_floating(dtype_of<typename First::value_type>)) struct on<bundle<First, Rest...>> {
    static constexpr int axis = detail::axis_of(Axis, First::rank), count = 1 + sizeof...(Rest);
    static constexpr auto at = static_cast<std::size_t>(axis);
    using output = detail::with_extent<First, axis, (First::extents[at] + ... + Rest::extents[at])>;
    using T = typename First::value_type;
    static constexpr auto elements = static_cast<std::int64_t>(output::size);
    static constexpr work cost{.bytes = static_cast<std::int64_t>(2 * sizeof(T)) * elements};
    static constexpr std::ptrdiff_t width = detail::row_width<output>(axis), rows = elements / width;
    using indices = std::make_integer_sequence<int, count>;

    template <class C, class A>
    static void forward(const C& c, const A& a) {
      c.rows(a.samples() * rows, detail::join_rows<T, count>{inputs(a, indices{}), a.out(), width});
    }
    template <class C, class A>
    static void backward_input(const C& c, const A& a) {
      c.rows(a.samples() * rows, detail::cut_rows<T, count>{a.out_gradient(), gradients(a, indices{}), width});
    }

   private:
    template <class A, int... I>
    static detail::slices<const T, count> inputs(const A& a, std::integer_sequence<int, I...>) {
      return {{detail::row_width<First>(axis), detail::row_width<Rest>(axis)...}, {a.template in<I>()...}};
    }
    template <class A, int... I>
    static detail::slices<T, count> gradients(const A& a, std::integer_sequence<int, I...>) {
      return {{detail::row_width<First>(axis), detail::row_width<Rest>(axis)...}, {a.template in_gradient<I>()...}};
    }
  };
};

}  // namespace gpipe
