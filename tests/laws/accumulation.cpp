// Accumulated calls and the step after them are one mini-batch, and the next one begins anew: gradients, weights,
// random numbers and the statistics of layers with state.

#include <doctest/doctest.h>

#include "support/nets.hpp"

using namespace gpipe;
using namespace laws;

namespace {

/// Channels of several numbers, so that a micro-batch of one sample has a variance.
struct net : model<input<float, 12>, linear<24>, reshape<6, 4>, batch_norm<>, dropout<25>, gelu, linear<3>,
                   batch_norm<>, reshape<18>, linear<7>, softmax_cross_entropy> {};

const samples<float> data(60, 12, 1);

plan_options planned(int micro_batches, int stages = 1) {
  return {.stages = stages, .micro_batches = micro_batches, .micro_batch_size = 1};
}

}  // namespace

TEST_CASE("steps after accumulated calls have the bits of a twin that never accumulates") {
  trainer<net, adam> whole(planned(4)), parts(planned(2, 3));
  int at = 0;
  const auto same = [&] {
    CHECK(state_of(parts) == state_of(whole));
    CHECK(parts.evaluate(data.take(0, 2)).loss == whole.evaluate(data.take(0, 2)).loss);
  };
  for (int mini_batch = 0; mini_batch < 2; ++mini_batch, at += 4) {
    parts.accumulate(data.take(at, 2));
    parts.step(data.take(at + 2, 2));
    whole.step(data.take(at, 4));
    same();
  }
  // One more step, of one call: nothing of the calls before is left.
  for (int step = 0; step < 2; ++step, at += 2) {
    parts.step(data.take(at, 2));
    whole.step(data.take(at, 2));
    same();
  }
  // Neither of calls whose gradients were dropped.
  parts.accumulate(data.take(at, 2));
  parts.discard_accumulated();
  parts.step(data.take(at, 2));
  whole.step(data.take(at, 2));
  same();
}

TEST_CASE("a mini-batch of three calls has the bits of one call") {
  trainer<net, adam> whole(planned(6)), parts(planned(2, 3));
  for (int at = 0; at < 24; at += 6) {
    parts.accumulate(data.take(at, 2));
    parts.accumulate(data.take(at + 2, 2));
    parts.step(data.take(at + 4, 2));
    whole.step(data.take(at, 6));
    CHECK(state_of(parts) == state_of(whole));
  }
}
