#include <gpipe/plan/options/promises.hpp>

#include <doctest/doctest.h>

#include <type_traits>

#include <gpipe/layer/activation/relu.hpp>

using namespace gpipe;

namespace {
struct net : model<input<float, 4>, relu> {};
}  // namespace

// An invalid model does not compile: tests/compile_fail.
static_assert(std::is_same_v<decltype(detail::planned_model<net>())::type, net>);
static_assert(!decltype(detail::planned_model<net>())::mistaken);

// A model of 6 layers.
static_assert(detail::bad_stage<cut_at<2, 4>>(6) == -1);
static_assert(detail::bad_stage<cut_at<>>(6) == -1);
static_assert(detail::bad_stage<cut_at<2, 2>>(6) == 1);
static_assert(detail::bad_stage<cut_at<0, 2>>(6) == 0);
static_assert(detail::bad_stage<cut_at<-1, 2>>(6) == 0);
static_assert(detail::bad_stage<cut_at<2, 6>>(6) == 2);
static_assert(detail::bad_stage<cut_at<2, 7>>(6) == 1);

// An invalid cut does not compile: tests/compile_fail/cut_order.cpp, cut_boundaries.cpp.
static_assert(detail::takes_custom_cut<detail::chosen_types<cut_at<2, 4>>, 3, 6>());
static_assert(!detail::takes_custom_cut<detail::chosen_types<stages<3>>, 3, 6>());

TEST_CASE("a custom cut names the first layer of every stage but the first") {
  CHECK(detail::takes_custom_cut<detail::chosen_types<stages<1>, cut_at<>>, 1, 6>());
}
