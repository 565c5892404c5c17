#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <gpipe/layer/activation/gelu.hpp>
#include <gpipe/layer/contract/bound.hpp>
#include <gpipe/layer/contract/extents.hpp>
#include <gpipe/layer/contract/operands.hpp>
#include <gpipe/layer/linear/weight_product.hpp>

namespace gpipe {

namespace detail {

/// The function of a feed-forward layer: GELU, or its option.
template <class... Options>
struct function_among {
  using type = gelu;
};
template <class Function>
struct function_among<Function> {
  using type = Function;
};

template <class T, class Function>
struct feed_forward_kernels {
  using value_type = T;
  using number = compute_type<T>;
  static constexpr keep keeps{.input = true};
  struct numbers {
    int rows, width, hidden;  ///< of a sample; of a row; of a row between the products

    constexpr std::int64_t elements() const { return std::int64_t{rows} * hidden; }
    constexpr weight_product<T> first() const { return {hidden, width}; }
    constexpr weight_product<T> second() const { return {width, hidden}; }
  };

  template <class C>
  static void prepare(const C& c, int samples, const numbers& of) {
    of.first().prepare(c, samples * of.rows);
    of.second().prepare(c, samples * of.rows);
  }

  template <class C, class A>
  static void refresh(const C& c, const A& a) noexcept {
    const numbers& of = a.sizes();
    of.first().pack(c, a.template parameter<0>(), a.template derived<0>(), a.template derived<1>());
    of.second().pack(c, a.template parameter<2>(), a.template derived<2>(), a.template derived<3>());
  }

  template <class C, class A>
  static void forward(const C& c, const A& a) {
    const numbers& of = a.sizes();
    T *const h = a.template extra<0, T>(), *const z = a.template extra<1, T>();
    const int count = a.samples() * of.rows;
    of.first().apply(c, count, a.in(), a.template derived<0>(), a.template parameter<1>(), h);
    c.each(a.samples() * of.elements(), apply{h, z});
    of.second().apply(c, count, z, a.template derived<2>(), a.template parameter<3>(), a.out());
  }

  template <class C, class A>
  static void backward_input(const C& c, const A& a) {
    const numbers& of = a.sizes();
    T* const into = a.in_gradient();
    if (into == nullptr) return;
    differentiate(c, a);
    const T* dh = a.template extra<1, T>();
    of.first().apply_back(c, a.samples() * of.rows, dh, a.template derived<1>(), into);
  }

  /// Where no gradient flows back to the input, the input part does not run.
  template <class C, class A>
  static void backward_parameters(const C& c, const A& a) {
    const numbers& of = a.sizes();
    if (a.in_gradient() == nullptr) differentiate(c, a);
    const int count = a.samples() * of.rows;
    const T *z = a.template extra<0, T>(), *dh = a.template extra<1, T>();
    of.first().add_weight_gradient(c, count, dh, a.in(), a.template gradient<0>());
    of.first().add_bias_gradient(c, count, dh, a.template gradient<1>());
    of.second().add_weight_gradient(c, count, a.out_gradient(), z, a.template gradient<2>());
    of.second().add_bias_gradient(c, count, a.out_gradient(), a.template gradient<3>());
  }

  template <class C, class A>
  requires multiplies_parts<C, T>
  static void backward_parameters(const C& c, const A& all, int micro_batches) {
    const numbers of = all[0].sizes();
    row_parts<T> x{{}, all[0].samples() * of.rows}, z = x, dh = x, dy = x;
    for (int i = 0; i < micro_batches; ++i) {
      if (all[i].in_gradient() == nullptr) differentiate(c, all[i]);
      x.part[i] = all[i].in();
      z.part[i] = all[i].template extra<0, T>();
      dh.part[i] = all[i].template extra<1, T>();
      dy.part[i] = all[i].out_gradient();
    }
    const int count = all.samples() * of.rows;
    of.first().add_weight_gradient(c, count, dh, x, all[0].template gradient<0>());
    of.second().add_weight_gradient(c, count, dy, z, all[0].template gradient<2>());
    for (int i = 0; i < micro_batches; ++i) {
      const int some = all[i].samples() * of.rows;
      of.first().add_bias_gradient(c, some, dh.part[i], all[0].template gradient<1>());
      of.second().add_bias_gradient(c, some, dy.part[i], all[0].template gradient<3>());
    }
  }

  template <class C, class A>
  static void differentiate(const C& c, const A& a) {
    const numbers& of = a.sizes();
    T *const h = a.template extra<0, T>(), *const z = a.template extra<1, T>();
    of.second().apply_back(c, a.samples() * of.rows, a.out_gradient(), a.template derived<3>(), z);
    c.each(a.samples() * of.elements(), chain{h, z});
  }

  struct apply {
    const T* h;
    T* z;
    GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const { z[i] = value_and_slope<Function>(number(h[i])).value; }
  };
  struct chain {
    T *h, *dz;
    GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const {
      const value_and_derivative<number> f = value_and_slope<Function>(number(h[i]));
      dz[i] = number(dz[i]) * f.derivative;
      h[i] = f.value;
    }
  };
};

}  // namespace detail

/// The two linear layers of a Transformer block, with a function of each element between them, on the last extent:
///
///     h = x A^T + a,  z = f(h),  y = z B^T + b
///     dz = dy B,  dh = dz f'(h),  dx = dh A,    dB += dy^T z,  dA += dh^T x,  db, da: the sums of dy, dh over rows
///
///     input and output tensor<T, ..., width>, linear1_weight {Hidden, width}, linear1_bias {Hidden},
///     linear2_weight {width, Hidden}, linear2_bias {width}
///
/// f is GELU, or the activation in `feed_forward<8192, relu>`. Two buffers of the hidden width serve for four tensors:
///
///     "hidden"     forward: h    backward: z, computed again
///     "function"   forward: z    backward: dz, then dh
template <int Hidden, class... Function>
struct feed_forward {
  static_assert(Hidden > 0, "gpipe: feed_forward<Hidden>: the hidden width must be at least 1");
  static_assert(sizeof...(Function) <= 1, "gpipe: feed_forward<Hidden, Function> has one function");

  template <class In>
  struct on;

  template <class T, int... Extents>
  requires(sizeof...(Extents) > 0 && detail::is_floating(dtype_of<T>)) struct on<tensor<T, Extents...>>
      : of_kind<on<tensor<T, Extents...>>,
                detail::feed_forward_kernels<T, typename detail::function_among<Function...>::type>> {
    using output = tensor<T, Extents...>;
    static constexpr int width = detail::last_extent<output>, rows = detail::rows_in<output>;
    static constexpr typename on::numbers sizes{rows, width, Hidden};
    static constexpr auto first = sizes.first(), second = sizes.second();
    static constexpr std::size_t hidden = std::size_t{rows} * Hidden;

    static constexpr parameter parameters[] = {
        {"linear1_weight", {Hidden, width}, initialiser::uniform(width), "linear1.weight"},
        {"linear1_bias", {Hidden}, initialiser::uniform(width), "linear1.bias"},
        {"linear2_weight", {width, Hidden}, initialiser::uniform(Hidden), "linear2.weight"},
        {"linear2_bias", {width}, initialiser::uniform(Hidden), "linear2.bias"}};
    static constexpr buffer derived[] = {{"linear1 forward", first.packed_forward(), dtype_of<T>},
                                         {"linear1 backward", first.packed_backward(), dtype_of<T>},
                                         {"linear2 forward", second.packed_forward(), dtype_of<T>},
                                         {"linear2 backward", second.packed_backward(), dtype_of<T>}};
    static constexpr buffer extras[] = {{"hidden", hidden, dtype_of<T>}, {"function", hidden, dtype_of<T>}};

    static constexpr auto elements = static_cast<std::int64_t>(hidden);
    static constexpr std::int64_t products = 4 * elements * width;
    static constexpr work cost{.forward = products + 20 * elements,
                               .backward_input = products + 20 * elements,
                               .backward_parameters = products + elements + rows * width,
                               .bytes = static_cast<std::int64_t>(sizeof(T)) * (2 * rows * width + 3 * elements)};
  };
};

}  // namespace gpipe
