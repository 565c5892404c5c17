// sanitizers: address

#include <gpipe/runtime/join_job.hpp>

#include <doctest/doctest.h>

#include <gpipe/layer.hpp>
#include <gpipe/model/model.hpp>
#include <gpipe/plan/make_plan.hpp>

using namespace gpipe;

// What processes agree on and how they are joined: tests/laws/job.cpp and tests/laws/processes.cpp.

namespace {

struct net : model<input<float, 4>, linear<4>, linear<2>, softmax_cross_entropy> {};

}  // namespace

TEST_CASE("an error names the numbers of processes that fit the plan") {
  const step_plan plan = make_plan(network_of<net>, {.stages = 2, .micro_batches = 2, .micro_batch_size = 2});
  CHECK_THROWS_WITH_AS(detail::throw_rank_count(plan, 1),
                       "the job has 1 process, and the plan 2 workers; start 2 processes, or choose 1 worker", error);
  CHECK_THROWS_WITH_AS(detail::throw_rank_count(plan, 5), doctest::Contains("start 2 processes"), error);
}
