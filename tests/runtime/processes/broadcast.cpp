#include <gpipe/runtime/processes/broadcast.hpp>

#include <doctest/doctest.h>

#include <atomic>

#include <gpipe/layer.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/model/model.hpp>

#include "support/threaded_job.hpp"

using namespace gpipe;
using namespace gpipe::detail;

namespace {

struct net : model<input<float, 4>, linear<4>, linear<2>, softmax_cross_entropy> {};
const step_plan plan =
    make_plan(network_of<net>, {.stages = 2, .micro_batches = 2, .micro_batch_size = 2, .replicas = 2});

}  // namespace

TEST_CASE("one process keeps its bytes") {
  int number = 7;
  const broadcast all(plan, nullptr);
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
    const broadcast all(plan, &here);
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
