#pragma once

#include <cstddef>
#include <cstdint>

#include <gpipe/layer/contract/bound.hpp>
#include <gpipe/layer/contract/operands.hpp>

namespace gpipe::detail {

/// The sizes of a kind whose kernels depend only on the number of elements.
struct element_count {
  std::ptrdiff_t elements;  ///< of a sample

  constexpr std::ptrdiff_t of(int samples) const { return samples * elements; }
};

/// f(i) for i in [0, n), in any order. The members of `f` are two to four pointers to arrays. It reads element i of the
/// const ones, and writes, but does not read, element i of the others; if it reads these, too, it declares `static
/// constexpr bool updates = true`. It does not access null arrays. A device that reads several neighbours at once calls
/// `f` with other arrays, in which the elements have other indices.
template <class C, class F>
void each_element(const C& c, std::ptrdiff_t n, const F& f) {
  if constexpr (requires { c.each_element(n, f); }) c.each_element(n, f);
  else c.each(n, f);
}

/// The value that a function of elements keeps for its derivative.
enum class kept_value { input, output, derivative };

/// The kernels of a layer that is a function of each element: `Layer::apply<T>{x, y}`, and `Layer::chain<T>{kept, dy,
/// dx}` with the kept value. If that is the derivative, `apply` writes it to its third member.
template <class Layer, class T, kept_value Kept>
struct elements_kernels {
  using value_type = T;
  using numbers = element_count;
  static constexpr keep keeps{.input = Kept == kept_value::input, .output = Kept == kept_value::output};

  template <class C, class A>
  static void forward(const C& c, const A& a) {
    using apply = typename Layer::template apply<T>;
    if constexpr (Kept == kept_value::derivative)
      each_element(c, a.sizes().of(a.samples()), apply{a.in(), a.out(), a.template extra<0, T>()});
    else each_element(c, a.sizes().of(a.samples()), apply{a.in(), a.out()});
  }
  template <class C, class A>
  static void backward_input(const C& c, const A& a) {
    using chain = typename Layer::template chain<T>;
    if (a.in_gradient()) each_element(c, a.sizes().of(a.samples()), chain{kept(a), a.out_gradient(), a.in_gradient()});
  }

 private:
  template <class A>
  static const T* kept(const A& a) {
    if constexpr (Kept == kept_value::input) return a.in();
    else if constexpr (Kept == kept_value::output) return a.out();
    else return a.template extra<0, T>();
  }
};

/// The declarations of a layer of such a kind, whose output is an `Edge`. The costs are operations per element, and the
/// number of tensors that forward reads and writes.
template <class On, class Kind, class Edge, int Forward, int Backward, int Moved>
struct layer_of_elements : of_kind<On, Kind> {
  using output = Edge;
  using T = typename Edge::value_type;
  static constexpr auto elements = static_cast<std::int64_t>(Edge::size);
  static constexpr element_count sizes{elements};
  static constexpr work cost{.forward = Forward * elements,
                             .backward_input = Backward * elements,
                             .bytes = static_cast<std::int64_t>(Moved * sizeof(T)) * elements};
};

}  // namespace gpipe::detail
