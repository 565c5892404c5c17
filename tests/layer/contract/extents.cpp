#include <gpipe/layer/contract/extents.hpp>

#include <doctest/doctest.h>

#include <type_traits>

using namespace gpipe;
using namespace gpipe::detail;

using tokens = tensor<float, 2, 128, 64>;
static_assert(last_extent<tokens> == 64 && rows_in<tokens> == 256);
static_assert(last_extent<tensor<double, 7>> == 7 && rows_in<tensor<double, 7>> == 1);
static_assert(std::is_same_v<with_last<tokens, 10>, tensor<float, 2, 128, 10>>);
static_assert(std::is_same_v<with_last<tensor<double, 7>, 1>, tensor<double, 1>>);

TEST_CASE("rows times the last extent is the size") { CHECK(rows_in<tokens> * last_extent<tokens> == tokens::size); }
