#include <gpipe/core/tensor.hpp>

static_assert(__cplusplus >= 202002L);
