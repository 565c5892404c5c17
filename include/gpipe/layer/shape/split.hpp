#pragma once

#include <cstdint>
#include <utility>

#include <gpipe/layer/contract/bound.hpp>
#include <gpipe/layer/contract/operands.hpp>
#include <gpipe/layer/shape/concat.hpp>

namespace gpipe {

/// Cuts the last extent into parts, the tensors of its output: `split<32, 32>, multiply` gates one half by the other.
/// The parts' sizes must add up to the extent.
///
///     tensor<float, 8, 64>:  split<16, 48> gives tensor<float, 8, 16> and tensor<float, 8, 48>
template <int... Sizes>
struct split {
  static_assert(sizeof...(Sizes) >= 2 && ((Sizes > 0) && ...),
                "gpipe: split<Sizes...> needs two or more sizes of at least 1");

  template <class In>
  struct on;

  template <class T, int... Extents>
  requires(sizeof...(Extents) > 0 && detail::is_floating(dtype_of<T>) &&
           detail::row_width<tensor<T, Extents...>>(static_cast<int>(sizeof...(Extents)) - 1) ==
               (Sizes + ... + 0)) struct on<tensor<T, Extents...>> {
    using whole = tensor<T, Extents...>;
    static constexpr int count = sizeof...(Sizes);
    using output = bundle<detail::with_extent<whole, whole::rank - 1, Sizes>...>;
    static constexpr auto elements = static_cast<std::int64_t>(whole::size);
    static constexpr work cost{.bytes = static_cast<std::int64_t>(2 * sizeof(T)) * elements};
    static constexpr std::ptrdiff_t width = (Sizes + ...), rows = elements / width;
    using indices = std::make_integer_sequence<int, count>;

    template <class C, class A>
    static void forward(const C& c, const A& a) {
      c.rows(a.samples() * rows, detail::cut_rows<T, count>{a.in(), outputs(a, indices{}), width});
    }
    template <class C, class A>
    static void backward_input(const C& c, const A& a) {
      if (a.in_gradient())
        c.rows(a.samples() * rows, detail::join_rows<T, count>{gradients(a, indices{}), a.in_gradient(), width});
    }

   private:
    template <class A, int... Indices>
    static detail::slices<T, count> outputs(const A& a, std::integer_sequence<int, Indices...>) {
      return {{Sizes...}, {a.template out<Indices>()...}};
    }
    template <class A, int... Indices>
    static detail::slices<const T, count> gradients(const A& a, std::integer_sequence<int, Indices...>) {
      return {{Sizes...}, {a.template out_gradient<Indices>()...}};
    }
  };
};

}  // namespace gpipe
