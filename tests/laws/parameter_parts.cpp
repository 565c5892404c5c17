// However many parameter parts come in a row, one kernel call combines at most `max_coalesced` of them, and every
// number of them has the same bits.

#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>

#include "support/nets.hpp"

using namespace gpipe;
using namespace laws;

namespace {

std::atomic<int> most{0}, all_parts{0};

void note(int count) {
  all_parts += count;
  for (int before = most; before < count && !most.compare_exchange_weak(before, count);) {}
}

/// A linear layer that counts the micro-batches of each call of its parameter part.
struct counted {
  template <class In>
  struct on : linear<12>::on<In> {
    using base = linear<12>::on<In>;
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
struct net : model<input<float, 12>, repeat<12, counted>, softmax_cross_entropy> {};

/// The state after two steps.
std::uint64_t train(plan_options options) {
  const samples<float> data(40, 12, 1);
  trainer<net, sgd> training(options, sgd{});
  for (int step = 0; step < 2; ++step) training.step(data.take(step, options.micro_batches));
  return state_of(training);
}

}  // namespace

TEST_CASE("ZB-H1 with 12 stages and 12 micro-batches has more parameter parts in a row than one call combines") {
  const std::uint64_t alone = train({.micro_batches = 12, .recompute = recompute_mode::never});
  most = all_parts = 0;
  CHECK(train({.stages = 12,
               .micro_batches = 12,
               .recompute = recompute_mode::never,
               .schedule = schedule_kind::zb_h1,
               .workers = 12}) == alone);
  CHECK(most == (GPIPE_CANARY ? 1 : max_coalesced));  // the canary looks at buffers between two parts
  CHECK(all_parts == 2 * 12 * 12);
}
