// However many parameter parts come in a row, one kernel call combines at most `max_gradient_group` of them, and every
// number of them has the same bits.

#include <doctest/doctest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <gpipe/layer/attention/attention.hpp>
#include <gpipe/layer/convolution/conv2d.hpp>
#include <gpipe/layer/convolution/conv_transpose2d.hpp>
#include <gpipe/layer/normalization/batch_norm.hpp>
#include <gpipe/layer/pooling/global_average_pool.hpp>

#include "support/nets.hpp"

using namespace gpipe;
using namespace laws;

namespace {

std::atomic<int> max{0}, all_parts{0};

void note(int count) {
  all_parts += count;
  for (int before = max; before < count && !max.compare_exchange_weak(before, count);) {
  }
}

/// A layer that counts the micro-batches of each call of its parameter part.
template <class Layer>
struct counted {
  template <class In>
  struct on : Layer::template on<In> {
    using base = typename Layer::template on<In>;
    template <class C, class A>
    static void backward_parameters(const C& c, const A& a) {
      note(1);
      base::backward_parameters(c, a);
    }
    template <class C, class A>
    static void backward_parameters(const C& c, const A& all, int micro_batches) {
      note(micro_batches);
      base::backward_parameters(c, all, micro_batches);
    }
  };
};
struct net : model<input<float, 12>, repeat<12, counted<linear<12>>>, softmax_cross_entropy> {};
struct images : model<input_image<float, 3, 2, 2>, counted<conv2d<5, 3, conv_options{.padding = 1}>>, relu,
                      counted<conv_transpose2d<7, 2, conv_options{.stride = 2}>>, batch_norm<>,
                      counted<conv2d<40, 3, conv_options{.stride = 2, .bias = false}>>, global_average_pool,
                      softmax_cross_entropy> {};
struct attentions
    : model<input<float, 12>, reshape<3, 4>, counted<gpipe::attention<attention_options{.heads = 2, .causal = true}>>,
            counted<gpipe::attention<attention_options{.heads = 4, .key_heads = 2, .bias = false}>>, flatten, linear<7>,
            softmax_cross_entropy> {};

/// The state after two steps.
template <class Net = net>
std::uint64_t train(plan_options options, int count) {
  const samples<float> data(40, 12, 1);
  // Memory begins as NaN, so that a read of rows behind a short micro-batch shows.
  trainer<Net, sgd> training(options, sgd{}, {.arena_fill = std::byte{0xff}});
  for (int step = 0; step < 2; ++step) training.step(data.take(step, count));
  return state_of(training);
}

/// The same bits alone and in groups, the last of which has a short micro-batch.
template <class Net>
void same_in_groups() {
  plan_options options{.micro_batches = 5, .micro_batch_size = 3, .recompute = recompute_mode::never};
  options.schedule = schedule_kind::fill_drain;
  options.group_gradients = 1;
  const std::uint64_t alone = train<Net>(options, 13);  // 3 + 3 + 3 + 3 + 1
  for (const int group : {2, 4, 5}) {
    CAPTURE(group);
    max = 0;
    options.group_gradients = group;
    CHECK(train<Net>(options, 13) == alone);
    CHECK(max == (GPIPE_CANARY ? 1 : group));
  }
}

}  // namespace

TEST_CASE("ZB-H1 with 12 stages and 12 micro-batches has more parameter parts in a row than one call combines") {
  const std::uint64_t alone = train({.micro_batches = 12, .recompute = recompute_mode::never}, 12);
  max = all_parts = 0;
  CHECK(train({.stages = 12,
               .micro_batches = 12,
               .recompute = recompute_mode::never,
               .schedule = schedule_kind::zb_h1,
               .workers = 12},
              12) == alone);
  CHECK(max == (GPIPE_CANARY ? 1 : max_gradient_group));  // the canary looks at buffers between two parts
  CHECK(all_parts == 2 * 12 * 12);
}

TEST_CASE("convolutions and attentions have the same bits for any number of micro-batches in a call") {
  same_in_groups<images>();
  same_in_groups<attentions>();
}
