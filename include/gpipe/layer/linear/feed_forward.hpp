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
#include <gpipe/layer/linear/linear.hpp>

namespace gpipe {

namespace detail {

/// The kernels of a feed-forward layer, plain or gated: inner products of the input, a function of their elements, and
/// an outer product.
///
///              inner      z         parameters                               kept: forward, backward    in one of them
///     plain    h          f(h)      inner weight, bias, outer weight, bias   h          z              z, dz then dh
///     gated    g and u    f(g) u    weights of g and of u, outer weight      g, u       dg, du         z, dz then z
///
/// The last are forward's workspace and backward's extra: z is not kept, because backward computes it again anyway.
template <class T, class Function, bool Gated>
struct feed_forward_kernels : product_kernels<feed_forward_kernels<T, Function, Gated>, T> {
  using value_type = T;
  using number = compute_type<T>;
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
    each_inner([&](auto i) {
      sizes.inner().pack_forward(c, a.template parameter<i>(), a.template derived<2 * i>(), bias<1>(a),
                                 rounded<inner_bias>(a));
    });
    sizes.outer().pack_forward(c, outer_weights, a.template derived<outer>(), bias<3>(a), rounded<outer_bias>(a));
  }

  template <class C, class A>
  static void forward(const C& c, const A& a) {
    const numbers& sizes = a.sizes();
    const int count = a.samples() * sizes.rows;
    T* const z = a.template forward_workspace<0, T>();
    if (!apply_fused(c, a, count, z)) {
      each_inner([&](auto i) {
        sizes.inner().apply(c, count, a.in(), a.template derived<2 * i>(), a.template extra<i, T>(), bias<1>(a),
                            rounded<inner_bias>(a));
      });
      each_element(c, a.samples() * sizes.elements(), apply{a.template extra<0, T>(), factor(a), z});
    }
    sizes.outer().apply(c, count, z, a.template derived<outer>(), a.out(), bias<3>(a), rounded<outer_bias>(a));
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

  template <class C, class A>
  static std::array<product_gradient<T>, std::size_t{inner_count + 1}> product_gradients(const C& c, const A& a) {
    const numbers& sizes = a.sizes();
    if (a.in_gradient() == nullptr) differentiate(c, a);
    const auto inner_gradient = [&](auto i) -> product_gradient<T> {
      return {sizes.inner(), gradient_of<i>(a), a.in(), sizes.rows, a.template gradient<i>(), bias_gradient<1>(a)};
    };
    const product_gradient<T> outer_gradient{
        sizes.outer(),      a.out_gradient(), value(a), sizes.rows, a.template gradient<outer_weight>(),
        bias_gradient<3>(a)};
    if constexpr (Gated) return {inner_gradient(first_inner), inner_gradient(second_inner), outer_gradient};
    else return {inner_gradient(first_inner), outer_gradient};
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

  // The biases and their rounded copies; null with a gate.
  template <int Index, class A>
  static const number* bias(const A& a) {
    if constexpr (Gated) return nullptr;
    else return a.template parameter<Index>();
  }
  template <int Index, class A>
  static number* bias_gradient(const A& a) {
    if constexpr (Gated) return nullptr;
    else return a.template gradient<Index>();
  }
  template <int Index, class A>
  static T* rounded(const A& a) {
    if constexpr (Gated) return nullptr;
    else return a.template derived<Index>();
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

  static constexpr std::integral_constant<int, 0> first_inner{};
  static constexpr std::integral_constant<int, 1> second_inner{};
  template <class Use>
  static void each_inner(Use&& use) {
    use(first_inner);
    if constexpr (Gated) use(second_inner);
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

/// The function of a feed-forward layer: GELU, or its option.
template <class... Options>
struct function_among {
  using type = gelu;
};
template <class Function>
struct function_among<Function> {
  using type = typename function_of<Function>::type;
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
/// f is `gelu`, the approximation by tanh, or the activation in `feed_forward<8192, relu>`; PyTorch's default, and
/// BERT's, is `feed_forward<8192, exact_gelu>`. Backward computes z again, so only h is kept:
///
///     "hidden"     kept                    forward: h     backward: z
///     "function"   only in forward         z
///     "gradient"   only in backward                       dz, then dh
///
/// On a GPU, in bf16, GELU and its derivative are computed with the products, where cuBLASLt has such kernels.
template <int Hidden, class... Function>
struct feed_forward {
  static_assert(Hidden > 0, "gpipe: feed_forward<Hidden>: the hidden width must be at least 1");
  static_assert(sizeof...(Function) <= 1, "gpipe: feed_forward<Hidden, Function> has one function");

  template <class In>
  struct on;

  template <class In>
  using base_of =
      detail::feed_forward_layer<on<In>, In, Hidden, typename detail::function_among<Function...>::type, false>;

  template <class T, int... Extents>
  requires(sizeof...(Extents) > 0 && detail::is_floating(dtype_of<T>)) struct on<tensor<T, Extents...>>
      : base_of<tensor<T, Extents...>> {
    using base = base_of<tensor<T, Extents...>>;
    using base::elements, base::hidden, base::inner, base::outer, base::products, base::rows, base::width;

    static constexpr parameter parameters[] = {
        {"linear1_weight", {Hidden, width}, initializer::uniform(width), "linear1.weight"},
        {"linear1_bias", {Hidden}, initializer::uniform(width), "linear1.bias"},
        {"linear2_weight", {width, Hidden}, initializer::uniform(Hidden), "linear2.weight"},
        {"linear2_bias", {width}, initializer::uniform(Hidden), "linear2.bias"}};
    static constexpr buffer derived[] = {
        buffer::for_forward("linear1 forward", inner.packed_forward(), dtype_of<T>),
        buffer::for_backward("linear1 backward", inner.packed_backward(), dtype_of<T>),
        buffer::for_forward("linear2 forward", outer.packed_forward(), dtype_of<T>),
        buffer::for_backward("linear2 backward", outer.packed_backward(), dtype_of<T>),
        buffer::for_forward("linear1 bias", detail::rounded_bias_size<T>(Hidden), dtype_of<T>),
        buffer::for_forward("linear2 bias", detail::rounded_bias_size<T>(width), dtype_of<T>)};
    static constexpr buffer extras[] = {{"hidden", hidden, dtype_of<T>}};

    static constexpr work cost{.forward = products + 20 * elements,
                               .backward_input = products + 20 * elements,
                               .backward_parameters = products + elements + rows * width,
                               .bytes = static_cast<std::int64_t>(sizeof(T)) * (2 * rows * width + 3 * elements),
                               .kind = work_kind::product};
  };
};

}  // namespace gpipe
