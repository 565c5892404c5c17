#pragma once

#include <cstddef>
#include <cstdint>

#include <gpipe/layer/activation/silu.hpp>
#include <gpipe/layer/contract/bound.hpp>
#include <gpipe/layer/contract/extents.hpp>
#include <gpipe/layer/contract/operands.hpp>
#include <gpipe/layer/linear/weight_product.hpp>

namespace gpipe {

namespace detail {

template <class T>
struct gated_feed_forward_kernels {
  using value_type = T;
  using number = compute_type<T>;
  static constexpr keep keeps{.input = true};
  struct numbers {
    int rows, width, hidden;  ///< of a sample; of a row; of a row between the products

    constexpr std::int64_t elements() const { return std::int64_t{rows} * hidden; }
    constexpr weight_product<T> inner() const { return {hidden, width}; }  ///< of the gate, and of what it gates
    constexpr weight_product<T> outer() const { return {width, hidden}; }
  };

  template <class C>
  static void prepare(const C& c, int samples, const numbers& of) {
    of.inner().prepare(c, samples * of.rows);
    of.outer().prepare(c, samples * of.rows);
  }

  template <class C, class A>
  static void refresh(const C& c, const A& a) noexcept {
    const numbers& of = a.sizes();
    of.inner().pack(c, a.template parameter<0>(), a.template derived<0>(), a.template derived<1>());
    of.inner().pack(c, a.template parameter<1>(), a.template derived<2>(), a.template derived<3>());
    of.outer().pack(c, a.template parameter<2>(), a.template derived<4>(), a.template derived<5>());
  }

  template <class C, class A>
  static void forward(const C& c, const A& a) {
    const numbers& of = a.sizes();
    T *const gate = a.template extra<0, T>(), *const up = a.template extra<1, T>(), *const z = a.template extra<2, T>();
    const int count = a.samples() * of.rows;
    of.inner().apply(c, count, a.in(), a.template derived<0>(), gate);
    of.inner().apply(c, count, a.in(), a.template derived<2>(), up);
    c.each(a.samples() * of.elements(), apply{gate, up, z});
    of.outer().apply(c, count, z, a.template derived<4>(), a.out());
  }

  template <class C, class A>
  static void backward_input(const C& c, const A& a) {
    const numbers& of = a.sizes();
    T* const into = a.in_gradient();
    if (into == nullptr) return;
    differentiate(c, a);
    const T *dgate = a.template extra<0, T>(), *dup = a.template extra<1, T>();
    of.inner().apply_back(c, a.samples() * of.rows, dgate, a.template derived<1>(), into);
    of.inner().apply_back(c, a.samples() * of.rows, dup, a.template derived<3>(), into, true);
  }

  /// Where no gradient flows back to the input, the input part does not run.
  template <class C, class A>
  static void backward_parameters(const C& c, const A& a) {
    const numbers& of = a.sizes();
    if (a.in_gradient() == nullptr) differentiate(c, a);
    const int count = a.samples() * of.rows;
    const T *dgate = a.template extra<0, T>(), *dup = a.template extra<1, T>(), *z = a.template extra<2, T>();
    of.inner().add_weight_gradient(c, count, dgate, a.in(), a.template gradient<0>());
    of.inner().add_weight_gradient(c, count, dup, a.in(), a.template gradient<1>());
    of.outer().add_weight_gradient(c, count, a.out_gradient(), z, a.template gradient<2>());
  }

  template <class C, class A>
  requires detail::multiplies_parts<C, T>
  static void backward_parameters(const C& c, const A& all, int micro_batches) {
    const numbers of = all[0].sizes();
    row_parts<T> x{{}, all[0].samples() * of.rows}, dgate = x, dup = x, z = x, dy = x;
    for (int i = 0; i < micro_batches; ++i) {
      if (all[i].in_gradient() == nullptr) differentiate(c, all[i]);
      x.part[i] = all[i].in();
      dgate.part[i] = all[i].template extra<0, T>();
      dup.part[i] = all[i].template extra<1, T>();
      z.part[i] = all[i].template extra<2, T>();
      dy.part[i] = all[i].out_gradient();
    }
    const int count = all.samples() * of.rows;
    of.inner().add_weight_gradient(c, count, dgate, x, all[0].template gradient<0>());
    of.inner().add_weight_gradient(c, count, dup, x, all[0].template gradient<1>());
    of.outer().add_weight_gradient(c, count, dy, z, all[0].template gradient<2>());
  }

  template <class C, class A>
  static void differentiate(const C& c, const A& a) {
    const numbers& of = a.sizes();
    T* const dz = a.template extra<2, T>();
    of.outer().apply_back(c, a.samples() * of.rows, a.out_gradient(), a.template derived<5>(), dz);
    c.each(a.samples() * of.elements(), chain{a.template extra<0, T>(), a.template extra<1, T>(), dz});
  }

  struct apply {
    const T *gate, *up;
    T* z;
    GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const {
      z[i] = silu::both(number(gate[i])).value * number(up[i]);
    }
  };
  struct chain {
    T *gate, *up, *dz;
    GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const {
      const value_and_derivative<number> f = silu::both(number(gate[i]));
      const number factor = up[i], gradient = dz[i];
      gate[i] = gradient * factor * f.derivative;
      up[i] = gradient * f.value;
      dz[i] = f.value * factor;
    }
  };
};

}  // namespace detail

/// LLaMA's feed-forward layer (Shazeer, "GLU variants", 2020), on the last extent and without biases:
///
///     g = x G^T,  u = x U^T,  z = silu(g) u,  y = z D^T
///     dz = dy D,  dg = dz u silu'(g),  du = dz silu(g),  dx = dg G + du U
///     dD += dy^T z,  dG += dg^T x,  dU += du^T x
///
///     input and output tensor<T, ..., width>, gate_proj_weight and up_proj_weight {Hidden, width},
///     down_proj_weight {width, Hidden}
///
/// Backward overwrites the buffers of g and u with dg and du; that of z holds dz in between.
template <int Hidden>
struct gated_feed_forward {
  static_assert(Hidden > 0, "gpipe: gated_feed_forward<Hidden>: the hidden width must be at least 1");

  template <class In>
  struct on;

  template <class T, int... Extents>
  requires(sizeof...(Extents) > 0 && detail::is_floating(dtype_of<T>)) struct on<tensor<T, Extents...>>
      : of_kind<on<tensor<T, Extents...>>, detail::gated_feed_forward_kernels<T>> {
    using output = tensor<T, Extents...>;
    static constexpr int width = detail::last_extent<output>, rows = detail::rows_in<output>;
    static constexpr typename on::numbers sizes{rows, width, Hidden};
    static constexpr auto inner = sizes.inner(), outer = sizes.outer();
    static constexpr std::size_t hidden = std::size_t{rows} * Hidden;

    static constexpr parameter parameters[] = {
        {"gate_proj_weight", {Hidden, width}, initialiser::uniform(width), "gate_proj.weight"},
        {"up_proj_weight", {Hidden, width}, initialiser::uniform(width), "up_proj.weight"},
        {"down_proj_weight", {width, Hidden}, initialiser::uniform(Hidden), "down_proj.weight"}};
    static constexpr buffer derived[] = {{"gate_proj forward", inner.packed_forward(), dtype_of<T>},
                                         {"gate_proj backward", inner.packed_backward(), dtype_of<T>},
                                         {"up_proj forward", inner.packed_forward(), dtype_of<T>},
                                         {"up_proj backward", inner.packed_backward(), dtype_of<T>},
                                         {"down_proj forward", outer.packed_forward(), dtype_of<T>},
                                         {"down_proj backward", outer.packed_backward(), dtype_of<T>}};
    static constexpr buffer extras[] = {
        {"gate", hidden, dtype_of<T>}, {"up", hidden, dtype_of<T>}, {"product", hidden, dtype_of<T>}};

    static constexpr auto elements = static_cast<std::int64_t>(hidden);
    static constexpr std::int64_t products = 6 * elements * width;
    static constexpr work cost{.forward = products + 20 * elements,
                               .backward_input = products + 25 * elements,
                               .backward_parameters = products,
                               .bytes = static_cast<std::int64_t>(sizeof(T)) * (2 * rows * width + 5 * elements)};
  };
};

}  // namespace gpipe
