#include <gpipe/core/tensors/shape.hpp>

#include <doctest/doctest.h>

#include <gpipe/core/tensors/tensor.hpp>

using gpipe::shape;

static_assert(shape{}.size() == 1 && shape{}.rank == 0);
static_assert(shape{512, 64}.rank == 2 && shape{512, 64}.extents[1] == 64);
static_assert(shape{65536, 65536}.size() == std::size_t{1} << 32, "sizes do not overflow an int");
static_assert(shape(gpipe::tensor<float, 2, 3, 4>::extents) == shape{2, 3, 4});
static_assert(shape{2, 3} != shape{3, 2} && shape{2} != shape{2, 1});

TEST_CASE("a shape can have six extents") { CHECK(shape{1, 2, 3, 4, 5, 6}.size() == 720); }
