// Tables that no shipped schedule has, read from texts: they train to the bits of one stage.

#include <gpipe/plan/timetable/schedule_table.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <gpipe/make_plan.hpp>
#include <gpipe/train/trainer.hpp>

#include "support/nets.hpp"

using namespace gpipe;
using namespace laws;

namespace {

/// Two workers of three and two stages, which are no neighbours: 0 1 4 / 2 3.
constexpr const char* unequal =
    "0F0,1F0,0F1,1F1,4F0,4B0,4F1,4B1,1B0,0B0,0F2,1F2,4F2,4B2,1B1,0B1,1B2,0B2\n"
    "2F0,3F0,2F1,3F1,3B0,2B0,3B1,2B1,2F2,3F2,3B2,2B2\n";

/// A stage with whole backwards and backwards in two parts: parts between whole ones, two input parts in a row, and
/// parameter parts that wait for the next stage.
constexpr const char* mixed =
    "0F0,0F1,0F2,0F3,0B0,0I1,0W1,0B2,0B3\n"
    "1F0,1B0,1F1,1F2,1I1,1I2,1W1,1W2,1F3,1B3\n"
    "2F0,2I0,2F1,2I1,2W0,2W1,2F2,2B2,2F3,2B3\n";
constexpr const char* mixed_late =
    "0F0,0F1,0F2,0F3,0I0,0I1,0I2,0W0,0W1,0W2,0B3\n"
    "1F0,1F1,1F2,1F3,1B0,1B1,1I2,1I3,1W2,1W3\n"
    "2F0,2F1,2F2,2F3,2I0,2W0,2B1,2I2,2W2,2B3\n";

using net = residual_net<float>;

struct setting {
  int S = 1;
  recompute_mode recompute = recompute_mode::always;
  const custom_schedule* custom = nullptr;
  int workers = 0;
  std::int64_t memory_limit = no_memory_limit;
};

plan_options options(const setting& as, int M) {
  return {.stages = as.S,
          .micro_batches = M,
          .micro_batch_size = 4,
          .recompute = as.recompute,
          .schedule = as.custom ? schedule_kind::custom : schedule_kind::fill_drain,
          .workers = as.workers,
          .custom_schedule = as.custom,
          .memory_limit = as.memory_limit};
}

/// The loss and the parameters after each of three steps, the last ones with empty micro-batches.
std::vector<std::uint64_t> train(const setting& as, int M) {
  static const samples<float> data(40, 12, 1);
  training_options how;
  how.seed = 11;
  how.max_grad_norm = 0.1;
  how.arena_fill = std::byte{0xff};  // all bits set are NaN: a read of unwritten memory shows
  how.canary = true;
  trainer<net, adam> training(options(as, M), adam{.learning_rate = 0.05}, how);
  std::vector<std::uint64_t> found;
  for (const int size : {4 * M, 4 * M - 3, 2}) {
    found.push_back(std::bit_cast<std::uint64_t>(training.step(data.take(0, size)).loss));
    found.push_back(training.parameter_hash());
  }
  found.push_back(std::bit_cast<std::uint64_t>(training.evaluate(data.take(0, 3 * M)).loss));
  return found;
}

}  // namespace

TEST_CASE("workers with unequal numbers of stages that are no neighbours, and stages that mix both backwards") {
  for (const char* text : {unequal, mixed, mixed_late}) {
    CAPTURE(text);
    const schedule_table table("table", text);
    const custom_schedule custom = custom_schedule_from(table);
    const int S = table.stages(), M = table.micro_batches();
    const auto expected = train({}, M);
    std::int64_t min = 0;
    for (const auto mode : {recompute_mode::always, recompute_mode::except_last, recompute_mode::never})
      for (const int workers : {0, 1}) {
        CHECK(train({.S = S, .recompute = mode, .custom = &custom, .workers = workers}, M) == expected);
        for (const stage_plan& stage : make_plan(network_of<net>, options({S, mode, &custom}, M)).stage_plans)
          if (mode == recompute_mode::always) min = std::max(min, stage.memory.total());
      }
    CHECK(train({.S = S, .recompute = recompute_mode::as_needed, .custom = &custom, .memory_limit = min}, M) ==
          expected);
  }
}
