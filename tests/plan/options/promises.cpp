#include <gpipe/plan/options/promises.hpp>

#include <doctest/doctest.h>

#include <type_traits>

#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/plan/options/static_options.hpp>

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

// An invalid cut does not compile: tests/compile_fail/plan_options.cpp.
static_assert(detail::takes_custom_cut<detail::chosen_types<cut_at<2, 4>>, 3, 6>());
static_assert(!detail::takes_custom_cut<detail::chosen_types<stages<3>>, 3, 6>());

TEST_CASE("a custom cut names the first layer of every stage but the first") {
  CHECK(detail::takes_custom_cut<detail::chosen_types<stages<1>, cut_at<>>, 1, 6>());
}

namespace {

struct linear_and_relu : model<input<float, 8>, linear<8>, relu> {};

struct measured {
  static constexpr int micro_batch_size = 4;
  static constexpr measured_layer layers[] = {{0, "linear<8>", 10, 11, 12}, {1, "relu", 900, 800}};
};

// tests/compile_fail has the messages for profiles that do not match.
static_assert(detail::require_profile<measured, linear_and_relu, 4>());

}  // namespace

TEST_CASE("a layer's name in a profile is printed as a type") {
  using name = decltype(detail::letters_of<measured, 1>(std::make_index_sequence<4>{}));
  CHECK(std::is_same_v<name, detail::letters<'r', 'e', 'l', 'u'>>);
}
