#include <gpipe/plan/plan.hpp>

#include <doctest/doctest.h>

#include <type_traits>

#include <gpipe/core/descriptions/optimizer.hpp>
#include <gpipe/layer/activation/relu.hpp>
#include <gpipe/layer/linear/linear.hpp>
#include <gpipe/layer/loss/softmax_cross_entropy.hpp>
#include <gpipe/stages.hpp>

using namespace gpipe;
using namespace gpipe::detail;

namespace {

struct net : model<input<float, 64>, linear<128>, relu, repeat<4, residual<linear<128>, relu>>, linear<10>,
                   softmax_cross_entropy> {};

using four = plan<net, stages<4>, micro_batches<16>, micro_batch_size<8>>;
static_assert(std::is_same_v<four::model, net>);
static_assert(four::S == 4 && four::M == 16 && four::B == 8 && four::L == 16);
static_assert(four::options.recompute == recompute_mode::as_needed && four::options.optimizer_moments == 2);
static_assert(four::bubble() == 3.0 / 19);
static_assert(four::parameters() == 64 * 128 + 128 + 4 * (128 * 128 + 128) + 128 * 10 + 10);

// No stage is empty, and every layer has a stage.
static_assert(four::cut().stages == 4 && four::cut().first[0] == 0 && four::cut().first[4] == 16);
static_assert(four::stage_of(0) == 0 && four::stage_of(15) == 3);
static_assert(four::cut().first[1] > 0 && four::cut().first[2] > four::cut().first[1] &&
              four::cut().first[3] > four::cut().first[2] && four::cut().first[3] < 16);

// Options come in any order; without any there is one stage.
using same = plan<net, micro_batch_size<8>, optimizer<adam>, micro_batches<16>, stages<4>,
                  gpipe::recompute<recompute_mode::as_needed>>;
static_assert(same::memory(2).total() == four::memory(2).total());
using plain = plan<net>;
static_assert(plain::S == 1 && plain::M == 1 && plain::bubble() == 0);

// Memory depends on the optimizer and recompute, and fits a limit or not.
using cheap = plan<net, stages<4>, micro_batches<16>, micro_batch_size<8>, optimizer<sgd>>;
static_assert(four::memory(1).of(memory_kind::moments) == 2 * cheap::memory(1).of(memory_kind::moments));
static_assert(four::memory(1).of(memory_kind::moments) == 2 * four::memory(1).of(memory_kind::parameters));
using kept = plan<net, stages<4>, micro_batches<16>, micro_batch_size<8>, gpipe::recompute<recompute_mode::never>>;
using again =
    plan<net, stages<4>, micro_batches<16>, micro_batch_size<8>, gpipe::recompute<recompute_mode::except_last>>;
static_assert(kept::memory(1).of(memory_kind::kept) == 16 * again::memory(1).of(memory_kind::kept));
static_assert(again::memory(1).of(memory_kind::stash) == kept::memory(1).of(memory_kind::stash));
static_assert(four::memory(1).total() == kept::memory(1).total() && four::makespan() == kept::makespan());
constexpr std::int64_t max = [] {
  std::int64_t found = 0;
  for (int s = 0; s < 4; ++s) found = four::memory(s).total() > found ? four::memory(s).total() : found;
  return found;
}();
static_assert(require_fits<four, max>());
static_assert(require_fits<four, 8_GiB>());

// Folded onto fewer workers it needs the same memory; folding onto all workers changes nothing.
using folded_four = plan<net, workers<3>, stages<4>, micro_batches<16>, micro_batch_size<8>>;
static_assert(folded_four::schedule.workers(4) == 3 && folded_four::bubble() > four::bubble());
static_assert(folded_four::memory(1).of(memory_kind::parameters) > 0 && folded_four::makespan() > four::makespan());
using whole_four = plan<net, stages<4>, micro_batches<16>, micro_batch_size<8>, workers<4>>;
static_assert(whole_four::makespan() == four::makespan() && whole_four::bubble() == four::bubble() &&
              whole_four::cut().first[1] == four::cut().first[1]);

// In bf16: the same layers; values and derived weights take half, parameters the same. Its rounded biases are derived,
// too.
template <class... More>
using cut_by_hand = plan<net, cut_at<4, 8, 12>, micro_batches<16>, micro_batch_size<8>, More...>;
using single = cut_by_hand<>;
using narrow = cut_by_hand<precision_is<precision::bf16>>;
static_assert(std::is_same_v<narrow::model, in_bf16<net>> && narrow::parameters() == single::parameters());
constexpr bool takes(memory_kind kind, int halves) {
  return 2 * narrow::memory(1).of(kind) == halves * single::memory(1).of(kind) && single::memory(1).of(kind) > 0;
}
static_assert(takes(memory_kind::stash, 1) && takes(memory_kind::kept, 1));
constexpr std::int64_t rounded_bias = sizeof(bf16) * packed_size(1, 128);
static_assert(2 * (narrow::memory(1).of(memory_kind::derived) - rounded_bias) ==
              single::memory(1).of(memory_kind::derived));
static_assert(takes(memory_kind::parameters, 2) && takes(memory_kind::gradients, 2) && takes(memory_kind::moments, 2));
static_assert(precision_of(network_of<narrow::model>) == precision::bf16 &&
              precision_of(network_of<net>) == precision::float32);
constexpr traffic across(const network& of) { return traffic_of(of, single::cut(), {1, 2, true}, 8); }
static_assert(2 * across(network_of<narrow::model>).forward_bytes == across(network_of<net>).forward_bytes);
static_assert(2 * across(network_of<narrow::model>).backward_bytes == across(network_of<net>).backward_bytes);

// Replicas share a mini-batch's micro-batches, and each holds the partials of all of them.
using doubled = plan<net, stages<4>, micro_batches<16>, micro_batch_size<8>, replicas<2>>;
static_assert(doubled::memory(3).of(memory_kind::partials) == 2 * four::memory(3).of(memory_kind::partials));
static_assert(doubled::memory(0).total() == four::memory(0).total() && doubled::makespan() == four::makespan());

// Stages as types: one each, in a recompute wrapper if it may run forward again.
using again = plan<net, stages<4>, micro_batches<16>, micro_batch_size<8>, recompute<recompute_mode::except_last>>;
template <class Plan, int I>
using stage_at = std::remove_cvref_t<decltype(boost::hana::at_c<I>(Plan::stages()))>;
static_assert(stage_at<four, 0>::first == 0 && stage_at<four, 3>::last == 16);
static_assert(stage_at<four, 1>::first == four::cut().first[1] && stage_at<four, 1>::index == 1);
static_assert(stage_at<again, 2>::mode == recompute_mode::except_last);
template <class Stage>
concept is_wrapped = requires {
  typename Stage::wrapped;
};
static_assert(is_wrapped<stage_at<again, 0>> && !is_wrapped<stage_at<four, 0>> && !is_wrapped<stage_at<kept, 0>>);

}  // namespace

TEST_CASE("the stages cost about the same") {
  std::int64_t min = 0, largest = 0;
  for (int s = 0; s < 4; ++s) {
    std::int64_t sum = 0;
    for (int l = four::cut().first[s]; l < four::cut().first[s + 1]; ++l) {
      const pass_cost cost = cost_of(network_of<net>.type_of(l), 8, true);
      sum += cost.forward + cost.backward;
    }
    min = s == 0 || sum < min ? sum : min;
    largest = sum > largest ? sum : largest;
  }
  CHECK(largest < 2 * min);
}
