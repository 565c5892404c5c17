// compiled: alone
#include <gpipe/core/text/type_name.hpp>

#include <doctest/doctest.h>

namespace gpipe {
template <int>
struct wide {};
}  // namespace gpipe

namespace mine {
struct layer {};
}  // namespace mine

using gpipe::detail::type_name;

static_assert(gpipe::detail::type_name<int> == "int" && gpipe::detail::type_name<float> == "float");
static_assert(gpipe::detail::type_name<gpipe::wide<512>> == "wide<512>");
static_assert(gpipe::detail::type_name<mine::layer> == "mine::layer");

TEST_CASE("a type's name can be used as text") { CHECK(gpipe::detail::type_name<gpipe::wide<-1>> == "wide<-1>"); }
