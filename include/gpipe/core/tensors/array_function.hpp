#pragma once

#include <cstddef>

#include <gpipe/core/config.hpp>

namespace gpipe::detail {

/// f(i) = g(i, arrays...), for the loops of a team. `g` reads element i of the constant arrays, and writes, but does
/// not read, element i of the others. A GPU reads and writes 16 bytes of each array at once: it calls `g` with other
/// arrays, which hold numbers, and in which the elements have other indices i.
template <class G, class... Pointers>
struct array_function;

template <class G, class A>
struct array_function<G, A> {
  G g;
  A a;
  GPIPE_HOST_DEVICE auto operator()(std::ptrdiff_t i) const { return g(i, a); }
  template <class Use>
  GPIPE_HOST_DEVICE auto with_arrays(Use use) const {
    return use(g, a);
  }
};
template <class G, class A, class B>
struct array_function<G, A, B> {
  G g;
  A a;
  B b;
  GPIPE_HOST_DEVICE auto operator()(std::ptrdiff_t i) const { return g(i, a, b); }
  template <class Use>
  GPIPE_HOST_DEVICE auto with_arrays(Use use) const {
    return use(g, a, b);
  }
};
template <class G, class A, class B, class C>
struct array_function<G, A, B, C> {
  G g;
  A a;
  B b;
  C c;
  GPIPE_HOST_DEVICE auto operator()(std::ptrdiff_t i) const { return g(i, a, b, c); }
  template <class Use>
  GPIPE_HOST_DEVICE auto with_arrays(Use use) const {
    return use(g, a, b, c);
  }
};
template <class G, class A, class B, class C, class D>
struct array_function<G, A, B, C, D> {
  G g;
  A a;
  B b;
  C c;
  D d;
  GPIPE_HOST_DEVICE auto operator()(std::ptrdiff_t i) const { return g(i, a, b, c, d); }
  template <class Use>
  GPIPE_HOST_DEVICE auto with_arrays(Use use) const {
    return use(g, a, b, c, d);
  }
};
template <class G, class A, class B, class C, class D, class E, class F>
struct array_function<G, A, B, C, D, E, F> {
  G g;
  A a;
  B b;
  C c;
  D d;
  E e;
  F f;
  GPIPE_HOST_DEVICE auto operator()(std::ptrdiff_t i) const { return g(i, a, b, c, d, e, f); }
  template <class Use>
  GPIPE_HOST_DEVICE auto with_arrays(Use use) const {
    return use(g, a, b, c, d, e, f);
  }
};
template <class G, class... Pointers>
array_function(G, Pointers...) -> array_function<G, Pointers...>;

template <class F>
inline constexpr bool is_array_function = false;
template <class G, class... Pointers>
inline constexpr bool is_array_function<array_function<G, Pointers...>> = true;

}  // namespace gpipe::detail
