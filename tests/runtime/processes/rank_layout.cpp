#include <gpipe/runtime/processes/rank_layout.hpp>

#include <doctest/doctest.h>

#include <atomic>

#include <gpipe/core/config.hpp>
#include <gpipe/layer.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/model/model.hpp>

#include "support/threaded_job.hpp"

using namespace gpipe;
using namespace gpipe::detail;

namespace {

struct net : model<input<float, 4>, linear<4>, gelu, linear<2>, softmax_cross_entropy> {};

/// Two replicas of two workers, of two stages each.
const step_plan plan =
    make_plan(network_of<net>, {.stages = 4, .micro_batches = 2, .micro_batch_size = 2, .workers = 2, .replicas = 2});
const step_plan plan_of_two_stages =
    make_plan(network_of<net>, {.stages = 2, .micro_batches = 2, .micro_batch_size = 2, .replicas = 2});

}  // namespace

TEST_CASE("one process without a job has all workers") {
  const rank_layout all(plan, nullptr);
  CHECK(all.count() == 4);
  CHECK(all.replica() == 0);
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
    if (!one.fits() || one.count() != 1 || one.replica() != r || one.first(r) != w) return;
    if (!one.has_part(r) || one.has_part(1 - r)) return;
    for (int i = 0; i < 4; ++i) workers[rank] += one.has_worker(i / 2, i % 2) ? (i == rank ? 1 : 100) : 0;
    for (int s = 0; s < 4; ++s)
      if (one.has_stage(r, s) && plan.worker_of(s) == w && !one.has_stage(1 - r, s)) ++stages[rank];
  });
  for (const int count : workers) CHECK(count == 1);
  for (const int count : stages) CHECK(count == 2);
}

TEST_CASE("with fewer processes than workers a process has several of one replica, in counts that differ by one") {
  const step_plan three =
      make_plan(network_of<net>, {.stages = 4, .micro_batches = 2, .micro_batch_size = 2, .workers = 3, .replicas = 2});
  threaded::job job(4);
  std::atomic<int> right{0};
  job.run([&](process_group& its) {
    const rank_layout here(three, &its);
    const int rank = its.rank(), r = rank / 2, first = rank % 2 == 0 ? 0 : 2, count = rank % 2 == 0 ? 2 : 1;
    bool holds = here.fits() && here.replica() == r && here.count() == count && here.count(r) == count &&
                 here.count(1 - r) == 0 && here.first(r) == first;
    for (int w = 0; w < 3; ++w) {
      holds = holds && here.rank_of(0, w) == w / 2 && here.rank_of(1, w) == 2 + w / 2;
      const bool mine = w >= first && w < first + count;
      holds = holds && here.has_worker(r, w) == mine && here.number_here(r, w) == (mine ? w - first : -1);
      holds = holds && here.number_here(1 - r, w) == -1;
    }
    for (int s = 0; s < 4; ++s)
      holds = holds && here.rank_of_stage(r, s) == here.rank_of(r, three.worker_of(s)) &&
              here.layers_here(network_of<net>.layer_count)[index(three.first[index(s)])] == here.has_stage(r, s);
    right += holds;
  });
  CHECK(right == 4);
}

TEST_CASE("replicas need as many processes each, and every process a worker") {
  const auto fits = [](int ranks) {
    threaded::job job(ranks);
    std::atomic<int> all{0};
    job.run([&](process_group& its) { all += rank_layout(plan, &its).fits(); });
    return all == ranks;
  };
  CHECK(fits(2));
  CHECK(fits(4));
  CHECK(!fits(1));
  CHECK(!fits(3));
  CHECK(!fits(5));
  CHECK(!fits(6));
}

TEST_CASE("devices name the processes of their workers, neighbours or not, in every replica") {
  static constexpr device_spec each[] = {l4.in_process(1), l4.in_process(0), l4.in_process(1), l4.in_process(1)};
  const step_plan placed = make_plan(
      network_of<net>,
      {.stages = 4, .micro_batches = 2, .micro_batch_size = 2, .replicas = 2, .devices = each, .device_count = 4});
  CHECK(placed.processes_of_workers == std::vector{1, 0, 1, 1});
  threaded::job job(4);
  std::atomic<int> right{0};
  job.run([&](process_group& its) {
    const rank_layout here(placed, &its);
    const int rank = its.rank(), r = rank / 2;
    const bool second = rank % 2 == 1;
    bool holds = here.fits() && here.replica() == r && here.count() == (second ? 3 : 1) &&
                 here.first(r) == (second ? 0 : 1) && here.number_here(1 - r, 0) == -1;
    const int numbers[] = {0, -1, 1, 2};
    for (int w = 0; w < 4; ++w)
      holds = holds && here.rank_of(r, w) == 2 * r + each[w].process &&
              here.number_here(r, w) == (second   ? numbers[w]
                                         : w == 1 ? 0
                                                  : -1);
    holds = holds && here.counts() == std::vector{1, 3, 1, 3};
    right += holds;
  });
  CHECK(right == 4);
  threaded::job other(2);
  other.run([&](process_group& its) { right += rank_layout(placed, &its).fits(); });
  CHECK(right == 4);
  CHECK(rank_layout(placed, nullptr).count() == 8);
}

TEST_CASE("one process keeps its bytes") {
  int number = 7;
  const broadcast all(plan_of_two_stages, nullptr);
  all.from_stage(1, 1, &number, sizeof number);
  all.from_worker(1, 1, &number, sizeof number);
  CHECK(number == 7);
  all.merge(
      0, [] { return std::vector<std::uint64_t>{}; }, [&](const auto&) { number = 0; });
  CHECK(number == 7);
}

TEST_CASE("every process gets the bytes of the process with the stage or the worker") {
  std::atomic<int> right{0};
  threaded::job job(4);
  job.run([&](process_group& here) {
    const broadcast all(plan_of_two_stages, &here);
    int of_stage = here.rank(), of_worker = here.rank();
    all.from_stage(1, 0, &of_stage, sizeof of_stage, 9);
    all.from_worker(1, 1, &of_worker, sizeof of_worker);
    std::vector<std::uint64_t> words{here.rank() == 1 ? 5U : 0U, here.rank() == 3 ? 6U : 0U};
    all.merge(
        1, [&] { return words; }, [&](const auto& merged) { words = merged; });
    right += of_stage == 2 && of_worker == 3 && words == std::vector<std::uint64_t>{5, 6};
  });
  CHECK(right == 4);
}
