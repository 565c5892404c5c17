#include <gpipe/core/tensors/tensor.hpp>

static_assert(__cplusplus >= 202002L);
