// expect: gpipe: a tensor's extents must be at least 1
// expect: tensor<float, 3, 0>
// errors: 1
#include <gpipe/core/tensors/tensor.hpp>

using good = gpipe::tensor<float, 3, 1>;
static_assert(good::size == 3);

#ifdef GPIPE_FAIL
using bad = gpipe::tensor<float, 3, 0>;
static_assert(bad::size == 0);
#endif
