#include <gpipe/plan/stages/stage_types.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <type_traits>

#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/model/model.hpp>
#include <gpipe/plan/options/plan_options.hpp>
#include <gpipe/plan/plan.hpp>

#include "support/layers.hpp"

using namespace gpipe;
using namespace gpipe::detail;
using namespace laws;

namespace {

using eight = tensor<float, 8>;
using halves = bundle<tensor<float, 4>, tensor<float, 4>>;

// halve, then 9 times cross, then join, relu, relu
struct net : model<input<float, 8>, halve, repeat<9, cross>, join, relu, relu> {};

// One element for each distinct layer, in model order, with its count.
using plain = decltype(detail::wrapped_stage<net, recompute_mode::never, 0, 0, 6>());
static_assert(
    std::is_same_v<
        plain,
        stage<0, 0, 6, boost::hana::tuple<layer_run<bound<halve, eight>, 1>, layer_run<bound<cross, halves>, 5>>>>);
using wrapped = decltype(detail::wrapped_stage<net, recompute_mode::always, 1, 6, 13>());
static_assert(std::is_same_v<wrapped::wrapped::layers,
                             boost::hana::tuple<layer_run<bound<cross, halves>, 4>, layer_run<bound<join, halves>, 1>,
                                                layer_run<bound<relu, eight>, 1>, layer_run<bound<relu, eight>, 1>>>);
static_assert(wrapped::index == 1 && wrapped::first == 6 && wrapped::last == 13);
static_assert(wrapped::mode == recompute_mode::always);

// The stages of a plan are recomputed if micro-batches run forward again: a plan needs these members for it.
template <recompute_mode Mode, std::int64_t Limit>
struct planned {
  using model = net;
  static constexpr int S = 2;
  static constexpr plan_options options{.recompute = Mode, .memory_limit = Limit};
  struct boundaries {
    int first[S + 1];
    const int* recomputed_before = nullptr;
  };
  static constexpr boundaries cut() { return {{0, 6, 13}}; }
};
template <recompute_mode Mode, std::int64_t Limit = no_memory_limit>
using stages_of = decltype(stage_tuple<planned<Mode, Limit>>::make());
using plain_tail = decltype(detail::wrapped_stage<net, recompute_mode::never, 1, 6, 13>());
static_assert(std::is_same_v<stages_of<recompute_mode::never>, boost::hana::tuple<plain, plain_tail>>);
static_assert(std::is_same_v<stages_of<recompute_mode::as_needed>, stages_of<recompute_mode::never>>);
static_assert(std::is_same_v<stages_of<recompute_mode::always>,
                             boost::hana::tuple<recomputed<plain, recompute_mode::always>, wrapped>>);
static_assert(std::is_same_v<stages_of<recompute_mode::as_needed, 1000>,
                             boost::hana::tuple<recomputed<plain, recompute_mode::as_needed>,
                                                recomputed<plain_tail, recompute_mode::as_needed>>>);

// A plan that recomputes single layers: a stage lists its recomputed layers, and a stage without any is not wrapped.
struct deep
    : model<input<float, 8>, linear<8>, relu, linear<8>, relu, linear<8>, relu, linear<4>, softmax_cross_entropy> {};
using by_layer = plan<deep, cut_at<2, 6>, micro_batches<2>, micro_batch_size<1>, recompute_layers<"relu">>;
template <int S>
using stage_by_layer = std::remove_cvref_t<decltype(boost::hana::at_c<S>(by_layer::stages()))>;
static_assert(stage_by_layer<0>::by_layer && stage_by_layer<0>::mode == recompute_mode::as_needed);
static_assert(stage_by_layer<0>::recomputed_layers == boost::hana::tuple_c<int, 1>);
static_assert(stage_by_layer<1>::recomputed_layers == boost::hana::tuple_c<int, 3, 5>);
static_assert(std::is_same_v<stage_by_layer<1>::wrapped,
                             decltype(detail::wrapped_stage<deep, recompute_mode::never, 1, 2, 6>())>);
static_assert(
    std::is_same_v<stage_by_layer<2>, decltype(detail::wrapped_stage<deep, recompute_mode::never, 2, 6, 8>())>);
static_assert(!wrapped::by_layer);

// A stash, of one tensor or of several, is no layer.
struct named : model<input<float, 8>, halve, stash<"a", "b">, only<pop<"b">>, pop<"a">, join> {};
static_assert(std::is_same_v<decltype(detail::wrapped_stage<named, recompute_mode::never, 0, 0, 2>())::layers,
                             boost::hana::tuple<layer_run<bound<halve, eight>, 1>, layer_run<bound<join, halves>, 1>>>);

}  // namespace

TEST_CASE("a stage of one repeated layer is one element, for any length") {
  using layers = decltype(detail::wrapped_stage<net, recompute_mode::never, 0, 1, 10>())::layers;
  using element = std::remove_cvref_t<decltype(boost::hana::at_c<0>(layers{}))>;
  CHECK(element::count == 9);
  CHECK(std::is_same_v<element::layer, bound<cross, halves>>);
}
