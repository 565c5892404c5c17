// sanitizers: address

#include <gpipe/runtime/join_job.hpp>

#include <doctest/doctest.h>

#include <gpipe/job.hpp>
#include <gpipe/layer.hpp>
#include <gpipe/make_plan.hpp>
#include <gpipe/model/model.hpp>
#include <gpipe/runtime/processes/other_processes.hpp>
#include <gpipe/runtime/step/training_options.hpp>

#include "support/threaded_job.hpp"

using namespace gpipe;

// What processes agree on and how they are joined: tests/laws/job.cpp and tests/laws/processes.cpp.

namespace {

struct net : model<input<float, 4>, linear<4>, linear<2>, softmax_cross_entropy> {};

}  // namespace

TEST_CASE("an error names the numbers of processes that fit the plan") {
  const auto planned = [](int workers, int replicas) {
    return make_plan(network_of<net>, {.stages = 3,
                                       .micro_batches = 2,
                                       .micro_batch_size = 2,
                                       .workers = workers,
                                       .separate_memory = true,
                                       .replicas = replicas});
  };
  CHECK_THROWS_WITH_AS(detail::throw_rank_count(planned(2, 1), 3),
                       "the job has 3 processes, and the plan 2 workers; start 2 processes, or choose 3 workers",
                       error);
  CHECK_THROWS_WITH_AS(detail::throw_rank_count(planned(2, 2), 3),
                       "the job has 3 processes, and the plan 4 workers in 2 replicas; start 2 or 4 processes", error);
  CHECK_THROWS_WITH_AS(detail::throw_rank_count(planned(3, 1), 5), doctest::Contains("start 3 processes"), error);
  static constexpr device_spec each[] = {l4.in_process(0), l4.in_process(1), l4.in_process(1)};
  step_plan placed = planned(3, 2);
  placed.options.devices = each, placed.options.device_count = 3;
  CHECK_THROWS_WITH_AS(detail::throw_rank_count(placed, 3),
                       "the job has 3 processes, and the plan's devices are in 2 of each of 2 replicas; start 4 "
                       "processes, or name no process of a device",
                       error);
}

TEST_CASE("a process has several workers if the job takes their threads") {
  const step_plan plan = make_plan(
      network_of<net>, {.stages = 3, .micro_batches = 2, .micro_batch_size = 2, .workers = 3, .separate_memory = true});
  for (const bool takes : {true, false}) {
    threaded::job job(2);
    job.takes_threads = takes;
    const auto agree = [&] {
      job.run([&](process_group& here) {
        training_options how;
        how.job = &here;
        how.job.set_up().agree(network_of<net>, plan, 0, how, true);
      });
    };
    if (takes) CHECK_NOTHROW(agree());
    else
      CHECK_THROWS_WITH_AS(agree(),
                           "a process of the job has 2 workers, but the job takes one thread of each; start 3 "
                           "processes; an mpi::job takes more threads after MPI_Init_thread with MPI_THREAD_SERIALIZED",
                           error);
  }
}
