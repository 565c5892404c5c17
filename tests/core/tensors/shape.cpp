#include <gpipe/core/tensors/shape.hpp>

#include <doctest/doctest.h>

#include <gpipe/core/tensors/tensor.hpp>

using gpipe::detail::shape;

static_assert(gpipe::detail::shape{}.size() == 1 && gpipe::detail::shape{}.rank == 0);
static_assert(gpipe::detail::shape{512, 64}.rank == 2 && gpipe::detail::shape{512, 64}.extents[1] == 64);
static_assert(gpipe::detail::shape{65536, 65536}.size() == std::size_t{1} << 32, "sizes do not overflow an int");
static_assert(gpipe::detail::shape(gpipe::tensor<float, 2, 3, 4>::extents) == gpipe::detail::shape{2, 3, 4});
static_assert(gpipe::detail::shape{2, 3} != gpipe::detail::shape{3, 2} &&
              gpipe::detail::shape{2} != gpipe::detail::shape{2, 1});

TEST_CASE("a shape can have six extents") { CHECK(gpipe::detail::shape{1, 2, 3, 4, 5, 6}.size() == 720); }
