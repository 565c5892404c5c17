#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <gpipe/core/config.hpp>
#include <gpipe/core/tensors/tensor.hpp>
#include <gpipe/layer/activation/gelu.hpp>
#include <gpipe/layer/contract/bound.hpp>
#include <gpipe/layer/contract/extents.hpp>
#include <gpipe/layer/contract/operands.hpp>
#include <gpipe/layer/contract/pointwise.hpp>
#include <gpipe/layer/contract/row_parts.hpp>
#include <gpipe/layer/linear/weight_product.hpp>

namespace gpipe::detail {

/// The kernels of a feed-forward layer, plain or gated: inner products of the input, a function of their elements, and
/// an outer product.
///
///              inner      z         parameters                               kept: forward, backward    in one of them
///     plain    h          f(h)      inner weight, bias, outer weight, bias   h          z              z, dz then dh
///     gated    g and u    f(g) u    weights of g and of u, outer weight      g, u       dg, du         z, dz then z
///
/// The last are forward's workspace and backward's extra: z is not kept, because backward computes it again anyway.
template <class T, class Function, bool Gated>
struct feed_forward_kernels {
  using value_type = T;
  using number = compute_type<T>;
  static constexpr keep keeps{.input = true};
  static constexpr int inner_count = Gated ? 2 : 1;

  struct numbers {
    int rows, width, hidden;  ///< of a sample; of a row; of a row between the products

    constexpr std::int64_t elements() const { return std::int64_t{rows} * hidden; }
    constexpr weight_product<T> inner() const { return {hidden, width}; }
    constexpr weight_product<T> outer() const { return {width, hidden}; }
  };

  template <class C>
  static void prepare(const C& c, int samples, const numbers& sizes) {
    sizes.inner().prepare(c, samples * sizes.rows);
    sizes.outer().prepare(c, samples * sizes.rows);
    if constexpr (fuses_gelu<C>) c.prepare_gelu(samples * sizes.rows, sizes.hidden, sizes.width);
  }

  template <class C, class A>
  static void refresh(const C& c, const A& a) noexcept {
    const numbers& sizes = a.sizes();
    const number* const outer_weights = a.template parameter<outer_weight>();
    if (a.refreshes_for_backward()) {
      each_inner(
          [&](auto i) { sizes.inner().pack_backward(c, a.template parameter<i>(), a.template derived<2 * i + 1>()); });
      sizes.outer().pack_backward(c, outer_weights, a.template derived<outer + 1>());
    }
    if (!a.refreshes_for_forward()) return;
    each_inner([&](auto i) { sizes.inner().pack_forward(c, a.template parameter<i>(), a.template derived<2 * i>()); });
    sizes.outer().pack_forward(c, outer_weights, a.template derived<outer>());
    if constexpr (!Gated) {
      round_bias(c, sizes.hidden, a.template parameter<1>(), a.template derived<inner_bias>());
      round_bias(c, sizes.width, a.template parameter<3>(), a.template derived<outer_bias>());
    }
  }

  template <class C, class A>
  static void forward(const C& c, const A& a) {
    const numbers& sizes = a.sizes();
    const int count = a.samples() * sizes.rows;
    T* const z = a.template forward_workspace<0, T>();
    if (!apply_fused(c, a, count, z)) {
      each_inner([&](auto i) {
        T* const product = a.template extra<i, T>();
        if constexpr (Gated) sizes.inner().apply(c, count, a.in(), a.template derived<2 * i>(), product);
        else
          sizes.inner().apply(c, count, a.in(), a.template derived<0>(), a.template parameter<1>(),
                              rounded<inner_bias>(a), product);
      });
      each_element(c, a.samples() * sizes.elements(), apply{a.template extra<0, T>(), factor(a), z});
    }
    if constexpr (Gated) sizes.outer().apply(c, count, z, a.template derived<outer>(), a.out());
    else
      sizes.outer().apply(c, count, z, a.template derived<outer>(), a.template parameter<3>(), rounded<outer_bias>(a),
                          a.out());
  }

  template <class C, class A>
  static void backward_input(const C& c, const A& a) {
    const numbers& sizes = a.sizes();
    T* const dx = a.in_gradient();
    if (dx == nullptr) return;
    differentiate(c, a);
    each_inner([&](auto i) {
      const T* dh = gradient_of<i>(a);
      sizes.inner().apply_back(c, a.samples() * sizes.rows, dh, a.template derived<2 * i + 1>(), dx, i > 0);
    });
  }

  /// The input part does not run if no gradient flows back to the input.
  template <class C, class A>
  static void backward_parameters(const C& c, const A& a) {
    const numbers& sizes = a.sizes();
    if (a.in_gradient() == nullptr) differentiate(c, a);
    const int count = a.samples() * sizes.rows;
    each_inner([&](auto i) {
      const T* dh = gradient_of<i>(a);
      sizes.inner().add_weight_gradient(c, count, dh, a.in(), a.template gradient<i>());
    });
    const T* z = value(a);
    sizes.outer().add_weight_gradient(c, count, a.out_gradient(), z, a.template gradient<2>());
    add_bias_gradients(c, a, a);
  }

  template <class C, class A>
  requires multiplies_parts<C, T>
  static void backward_parameters(const C& c, const A& calls, int micro_batches) {
    const numbers sizes = calls[0].sizes();
    row_parts<T> x{{}, calls[0].samples() * sizes.rows}, z = x, dy = x;
    std::array<row_parts<T>, std::size_t{inner_count}> dh;
    dh.fill(x);
    for (int m = 0; m < micro_batches; ++m) {
      if (calls[m].in_gradient() == nullptr) differentiate(c, calls[m]);
      x.part[m] = calls[m].in();
      z.part[m] = value(calls[m]);
      dy.part[m] = calls[m].out_gradient();
      each_inner([&](auto i) { dh[i].part[m] = gradient_of<i>(calls[m]); });
    }
    const int count = calls.samples() * sizes.rows;
    each_inner([&](auto i) { sizes.inner().add_weight_gradient(c, count, dh[i], x, calls[0].template gradient<i>()); });
    sizes.outer().add_weight_gradient(c, count, dy, z, calls[0].template gradient<2>());
    for (int m = 0; m < micro_batches; ++m) add_bias_gradients(c, calls[m], calls[0]);
  }

  // Public, because nvcc names them. Without a gate the factor is null.
  struct apply {
    const T *h, *factor;
    T* z;
    GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const {
      const number f = value_and_slope<Function>(number(h[i])).value;
      if constexpr (Gated) z[i] = f * number(factor[i]);
      else z[i] = f;
    }
  };
  struct chain {
    static constexpr bool updates = true;
    T *h, *factor, *dz;
    GPIPE_HOST_DEVICE void operator()(std::ptrdiff_t i) const {
      const value_and_derivative<number> f = value_and_slope<Function>(number(h[i]));
      const number gradient = dz[i];
      if constexpr (Gated) {
        const number up = factor[i];
        h[i] = gradient * up * f.derivative;
        factor[i] = gradient * f.value;
        dz[i] = f.value * up;
      } else {
        dz[i] = gradient * f.derivative;
        h[i] = f.value;
      }
    }
  };

 private:
  static constexpr int outer_weight = 2;         // without a gate after the inner bias, else after two weights
  static constexpr int outer = 2 * inner_count;  // the packed copies of the outer weight
  static constexpr int inner_bias = outer + 2, outer_bias = outer + 3;  // rounded

  // After backward's function: the buffer with z, and the buffers with the gradients of the inner products.
  template <class A>
  static T* value(const A& a) {
    if constexpr (Gated) return a.template backward_extra<0, T>();
    else return a.template extra<0, T>();
  }
  template <int Inner, class A>
  static T* gradient_of(const A& a) {
    if constexpr (Gated) return a.template extra<Inner, T>();
    else return a.template backward_extra<0, T>();
  }

  template <class A>
  static T* factor(const A& a) {
    if constexpr (Gated) return a.template extra<1, T>();
    else return nullptr;
  }

  template <int Index, class A>
  static const T* rounded(const A& a) {
    return a.template derived<Index>();
  }

  /// A context may compute GELU with the products.
  template <class C>
  static constexpr bool fuses_gelu =
      !Gated && std::is_same_v<Function, gelu> && requires(const C& c, const T* t, T* y) {
    c.multiply_gelu_gradient(1, 1, 1, t, t, t, y);
  };

  template <class C, class A>
  static bool apply_fused(const C& c, const A& a, int rows, T* z) {
    if constexpr (fuses_gelu<C>) {
      const numbers& sizes = a.sizes();
      const T *packed = a.template derived<0>(), *bias = rounded<inner_bias>(a);
      return c.multiply_plus_gelu(rows, sizes.hidden, sizes.width, a.in(), packed, bias, a.template extra<0, T>(), z);
    } else {
      return false;
    }
  }
  // Computes dh, and overwrites h with z.
  template <class C, class A>
  static bool differentiate_fused(const C& c, const A& a, T* dh) {
    if constexpr (fuses_gelu<C>) {
      const numbers& sizes = a.sizes();
      const T* packed = a.template derived<outer + 1>();
      T* const h = a.template extra<0, T>();
      if (!c.multiply_gelu_gradient(a.samples() * sizes.rows, sizes.hidden, sizes.width, a.out_gradient(), packed, h,
                                    dh))
        return false;
      each_element(c, a.samples() * sizes.elements(), apply{h, nullptr, h});
      return true;
    } else {
      return false;
    }
  }

  template <class Use>
  static void each_inner(Use&& use) {
    use(std::integral_constant<int, 0>{});
    if constexpr (Gated) use(std::integral_constant<int, 1>{});
  }

  /// Adds the sums over the micro-batch of `a` to the gradients of `target`.
  template <class C, class A, class Into>
  static void add_bias_gradients(const C& c, const A& a, const Into& target) {
    if constexpr (!Gated) {
      const numbers& sizes = a.sizes();
      const int count = a.samples() * sizes.rows;
      const T* dh = gradient_of<0>(a);
      sizes.inner().add_bias_gradient(c, count, dh, target.template gradient<1>());
      sizes.outer().add_bias_gradient(c, count, a.out_gradient(), target.template gradient<3>());
    }
  }

  template <class C, class A>
  static void differentiate(const C& c, const A& a) {
    const numbers& sizes = a.sizes();
    T* const dz = a.template backward_extra<0, T>();
    if (differentiate_fused(c, a, dz)) return;
    sizes.outer().apply_back(c, a.samples() * sizes.rows, a.out_gradient(), a.template derived<outer + 1>(), dz);
    each_element(c, a.samples() * sizes.elements(), chain{a.template extra<0, T>(), factor(a), dz});
  }
};

/// The common declarations of both layers, for an input of rows.
template <class On, class In, int Hidden, class Function, bool Gated>
struct feed_forward_layer : of_kind<On, feed_forward_kernels<typename In::value_type, Function, Gated>> {
  using output = In;
  using kernels = feed_forward_kernels<typename In::value_type, Function, Gated>;
  static constexpr int width = last_extent<In>, rows = rows_in<In>;
  static constexpr typename kernels::numbers sizes{rows, width, Hidden};
  static constexpr auto inner = sizes.inner(), outer = sizes.outer();
  static constexpr std::size_t hidden = std::size_t{rows} * Hidden;
  static constexpr buffer forward_workspace[] = {{"function", hidden, dtype_of<typename In::value_type>}};
  static constexpr buffer backward_extras[] = {{Gated ? "function" : "gradient", hidden, forward_workspace[0].type}};
  static constexpr auto elements = static_cast<std::int64_t>(hidden);
  static constexpr std::int64_t products = 2 * (kernels::inner_count + 1) * elements * width;
};

}  // namespace gpipe::detail
