#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <gpipe/layer/contract/bound.hpp>
#include <gpipe/layer/contract/operands.hpp>
#include <gpipe/model/structure/items.hpp>

namespace gpipe::detail {

// assumes: half precision is bf16
/// The layer of an item such as `from<"age", tensor<float, 1>>`, a second input. It reads no edge; its output is a copy
/// of the field's rows. Next to an edge of bf16, floats are rounded to bf16, as the model's input is.
template <class Field, class Tensor, bool Rounds>
struct field_source {
  template <class In>
  struct on {
    using T = typename Tensor::value_type;
    using element = std::conditional_t<Rounds, bf16, T>;
    using output = with_element<Tensor, element>;
    static constexpr field fields[] = {{Field::read_from, output::size, dtype_of<T>}};
    static constexpr auto elements = static_cast<std::int64_t>(output::size);
    static constexpr work cost{.bytes = static_cast<std::int64_t>(sizeof(T) + sizeof(element)) * elements};

    template <class C, class A>
    static void forward(const C& c, const A& a) {
      const T* rows = a.template field<0, T>();
      if constexpr (Rounds) c.each(a.samples() * elements, round{rows, a.out()});
      else c.copy(a.samples() * elements, rows, a.out());
    }

    struct round {
      const T* x;
      element* y;
      GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const { y[i] = x[i]; }
    };
  };
};

/// The layer of the item `Item` next to the edge `Edge`.
template <class Item, class Edge>
using source_of = field_source<Item, typename Item::tensor,
                               std::is_same_v<typename Item::tensor::value_type, float> &&
                                   std::is_same_v<typename element_of_edge<Edge>::type, bf16>>;

}  // namespace gpipe::detail
