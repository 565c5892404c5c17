#pragma once

#include <cstdint>

#include <gpipe/layer/activation/silu.hpp>
#include <gpipe/layer/linear/feed_forward.hpp>

namespace gpipe {

/// LLaMA's feed-forward layer (Shazeer, "GLU variants", 2020), on the last extent and without biases:
///
///     g = x G^T,  u = x U^T,  z = silu(g) u,  y = z D^T
///     dz = dy D,  dg = dz u silu'(g),  du = dz silu(g),  dx = dg G + du U
///     dD += dy^T z,  dG += dg^T x,  dU += du^T x
///
///     input and output tensor<T, ..., width>, gate_proj_weight and up_proj_weight {Hidden, width},
///     down_proj_weight {width, Hidden}
///
/// It keeps g and u. Backward overwrites them with dg and du, and computes z again, where dz has been.
template <int Hidden>
struct gated_feed_forward {
  static_assert(Hidden > 0, "gpipe: gated_feed_forward<Hidden>: the hidden width must be at least 1");

  template <class In>
  struct on;

  template <class In>
  using base_of = detail::feed_forward_layer<on<In>, In, Hidden, silu, true>;

  template <class T, int... Extents>
  requires(sizeof...(Extents) > 0 && detail::is_floating(dtype_of<T>)) struct on<tensor<T, Extents...>>
      : base_of<tensor<T, Extents...>> {
    using base = base_of<tensor<T, Extents...>>;
    using base::elements, base::hidden, base::inner, base::outer, base::products, base::rows, base::width;

    static constexpr parameter parameters[] = {
        {"gate_proj_weight", {Hidden, width}, initializer::uniform(width), "gate_proj.weight"},
        {"up_proj_weight", {Hidden, width}, initializer::uniform(width), "up_proj.weight"},
        {"down_proj_weight", {width, Hidden}, initializer::uniform(Hidden), "down_proj.weight"}};
    static constexpr buffer derived[] = {
        buffer::for_forward("gate_proj forward", inner.packed_forward(), dtype_of<T>),
        buffer::for_backward("gate_proj backward", inner.packed_backward(), dtype_of<T>),
        buffer::for_forward("up_proj forward", inner.packed_forward(), dtype_of<T>),
        buffer::for_backward("up_proj backward", inner.packed_backward(), dtype_of<T>),
        buffer::for_forward("down_proj forward", outer.packed_forward(), dtype_of<T>),
        buffer::for_backward("down_proj backward", outer.packed_backward(), dtype_of<T>)};
    static constexpr buffer extras[] = {{"gate", hidden, dtype_of<T>}, {"up", hidden, dtype_of<T>}};

    static constexpr work cost{.forward = products + 20 * elements,
                               .backward_input = products + 25 * elements,
                               .backward_parameters = products,
                               .bytes = static_cast<std::int64_t>(sizeof(T)) * (2 * rows * width + 5 * elements),
                               .kind = work_kind::product};
  };
};

}  // namespace gpipe
