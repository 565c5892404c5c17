#pragma once

#include <gpipe/layer/contract/bound.hpp>
#include <gpipe/layer/contract/kind.hpp>

namespace gpipe {

// change: a faster kernel
/// The kernels of a layer on a device: by default the layer's own, over the device's context. Specialize it, for
/// `Layer::on<Input>` and a device's context, only where a library or a special kernel is faster.
template <class On, class Context>
struct kernels : On {
  using of_the_layer = On;
};

namespace detail {

template <class Bound, class Context>
struct kernel_view_of {
  using type = Bound;
};
template <class Bound, class Context>
requires(is_of_kind<typename Bound::on>&& requires {
  typename kernels<typename Bound::on, Context>::of_the_layer;
}) struct kernel_view_of<Bound, Context> {
  using type = bound_kind<typename Bound::on::kind>;
};
/// The layer in the operands of its kernels on a device: its kind, if they are compiled for one.
template <class Bound, class Context>
using kernel_view = typename kernel_view_of<Bound, Context>::type;

}  // namespace detail

}  // namespace gpipe
