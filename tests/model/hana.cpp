#include <gpipe/model/hana.hpp>

#include <doctest/doctest.h>

#include <type_traits>

using namespace gpipe;
using namespace gpipe::detail;

namespace {

struct incomplete;
using types = list<int, incomplete, void, double&>;

static_assert(std::is_same_v<detail::element_at<types, 0>, int>);
static_assert(std::is_same_v<detail::element_at<types, 1>, incomplete>);
static_assert(std::is_same_v<detail::element_at<types, 2>, void>);
static_assert(std::is_same_v<detail::element_at<types, 3>, double&>);

}  // namespace

TEST_CASE("a Hana tuple holds types") {
  constexpr detail::hana_tuple<std::integral_constant<int, 3>, std::integral_constant<int, 4>> held;
  CHECK(boost::hana::at_c<0>(held) == 3);
  CHECK(boost::hana::at_c<1>(held) == 4);
}
