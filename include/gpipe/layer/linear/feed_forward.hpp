#pragma once

#include <cstdint>

#include <gpipe/layer/activation/gelu.hpp>
#include <gpipe/layer/linear/feed_forward_kernels.hpp>

namespace gpipe {

namespace detail {

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
