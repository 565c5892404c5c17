#include <gpipe/runtime/processes/rank_layout.hpp>

#include <doctest/doctest.h>

#include <gpipe/layer.hpp>
#include <gpipe/model/model.hpp>
#include <gpipe/plan/make_plan.hpp>

#include "support/threaded_job.hpp"

using namespace gpipe;
using namespace gpipe::detail;

namespace {

struct net : model<input<float, 4>, linear<4>, gelu, linear<2>, softmax_cross_entropy> {};

/// Two replicas of two workers, of two stages each.
const step_plan plan =
    make_plan(network_of<net>, {.stages = 4, .micro_batches = 2, .micro_batch_size = 2, .workers = 2, .replicas = 2});

}  // namespace

TEST_CASE("one process without a job has all workers") {
  const rank_layout all(plan, nullptr);
  CHECK(all.count() == 4);
  CHECK(all.only() == -1);
  for (int r = 0; r < 2; ++r) {
    CHECK(all.has_part(r));
    for (int w = 0; w < 2; ++w) CHECK(all.has_worker(r, w));
    for (int s = 0; s < 4; ++s) CHECK(all.has_stage(r, s));
  }
}

TEST_CASE("in a job a process has the worker of its rank, with that worker's stages") {
  threaded::job job(4);
  int workers[4]{}, stages[4]{};
  job.run([&](process_group& its) {
    const rank_layout one(plan, &its);
    const int rank = its.rank(), r = rank / 2, w = rank % 2;
    if (one.count() != 1 || one.replica() != r || one.only() != w || !one.has_part(r) || one.has_part(1 - r)) return;
    for (int i = 0; i < 4; ++i) workers[rank] += one.has_worker(i / 2, i % 2) ? (i == rank ? 1 : 100) : 0;
    for (int s = 0; s < 4; ++s)
      if (one.has_stage(r, s) && plan.worker_of(s) == w && !one.has_stage(1 - r, s)) ++stages[rank];
  });
  for (const int count : workers) CHECK(count == 1);
  for (const int count : stages) CHECK(count == 2);
}
