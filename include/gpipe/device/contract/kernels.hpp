#pragma once

namespace gpipe {

/// The kernels of a layer on a device: by default the layer's own, over the device's context. Specialise it, for
/// `Layer::on<Input>` and a device's context, only where a library or a special kernel is faster.
template <class On, class Context>
struct kernels : On {};

}  // namespace gpipe
