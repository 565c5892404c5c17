#include <gpipe/plan/options/static_options.hpp>

#include <doctest/doctest.h>

#include <gpipe/core/descriptions/optimizer.hpp>

using namespace gpipe;

namespace {

constexpr plan_options all = detail::chosen<stages<8>, micro_batches<16>, micro_batch_size<4>, schedule<interleaved>,
                                            chunks<4>, gpipe::recompute<recompute_mode::as_needed>, optimizer<sgd>,
                                            on_device<p100>, with_transfers, memory_limit<2_GiB>>();
static_assert(all.stages == 8 && all.micro_batches == 16 && all.micro_batch_size == 4);
static_assert(all.schedule == schedule_kind::interleaved && all.chosen_schedule().workers(8) == 2);
static_assert(all.recompute == recompute_mode::as_needed && all.optimizer_moments == sgd::moments);
static_assert(all.device.memory_bytes == 16_GB && all.cost_transfers && all.memory_limit == 2_GiB);

// The last of two different values counts, and a cut implies the number of stages.
static_assert(detail::chosen<stages<2>, stages<3>>().stages == 3);
static_assert(detail::chosen<cut_at<3, 7>>().stages == 3);
static_assert(detail::chosen<stages<2>, cut_at<3, 7>>().stages == 2);  // the plan rejects it, in either order
static_assert(detail::chosen<cut_at<3, 7>, stages<2>>().stages == 2);
static_assert(detail::chosen<group_gradients<4>>().group_gradients == 4 && detail::chosen<>().group_gradients == 0);
static_assert(detail::chosen<>().memory_limit == no_memory_limit && !detail::chosen<>().cost_transfers);

struct own : one_f_one_b {
  static constexpr const char* name() { return "own"; }
};

template <class... Options>
using schedule_in = decltype(detail::chosen_types<Options...>::schedule(plan_options{}));
static_assert(std::is_same_v<schedule_in<>, fill_drain>);
static_assert(std::is_same_v<schedule_in<stages<2>, schedule<own>, chunks<2>>, own>);
static_assert(std::is_same_v<schedule_in<schedule<zb_h1>, schedule<own>>, own>);
static_assert(std::is_same_v<schedule_in<schedule<own>, schedule<zb_h1>>, zb_h1>);
static_assert(detail::chosen<schedule<zb_h1>, schedule<own>>().schedule == schedule_kind::custom);
static_assert(detail::chosen<schedule<zb_h1>, schedule<own>>().custom_schedule == &custom_schedule_of<own>);
static_assert(detail::chosen<schedule<own>, schedule<zb_h1>>().custom_schedule == nullptr);
static_assert(std::is_same_v<detail::chosen_types<cut_at<1>, cut_at<2, 3>>::custom_cut, cut_at<2, 3>>);
static_assert(detail::chosen_types<schedule<interleaved>>::schedule(all).chunks == 4);
static_assert(detail::chosen_types<schedule<looped_bfs>>::schedule(all).chunks == 4);
static_assert(detail::chosen_types<schedule<interleaved_zb>>::schedule(all).chunks == 4);
static_assert(detail::chosen_types<stages<3>, cut_at<1, 2>>::has_cut && !detail::chosen_types<stages<3>>::has_cut);

}  // namespace

TEST_CASE("every shipped schedule has a kind") {
  CHECK(detail::chosen<schedule<fill_drain>>().schedule == schedule_kind::fill_drain);
  CHECK(detail::chosen<schedule<one_f_one_b>>().schedule == schedule_kind::one_f_one_b);
  CHECK(detail::chosen<schedule<interleaved>>().schedule == schedule_kind::interleaved);
  CHECK(detail::chosen<schedule<looped_bfs>>().schedule == schedule_kind::looped_bfs);
  CHECK(detail::chosen<schedule<zb_h1>>().schedule == schedule_kind::zb_h1);
  CHECK(detail::chosen<schedule<interleaved_zb>>().schedule == schedule_kind::interleaved_zb);
  CHECK(detail::chosen<schedule<dual_pipe_v>>().schedule == schedule_kind::dual_pipe_v);
  CHECK(detail::chosen<schedule<zb_v>>().schedule == schedule_kind::zb_v);
  CHECK(detail::chosen<schedule<forward_only>>().schedule == schedule_kind::forward_only);
}
