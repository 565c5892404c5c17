#pragma once

#include "../networks.hpp"

#include <gpipe/job.hpp>
#include <gpipe/mpi.hpp>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <unistd.h>

#include "../measure.hpp"

namespace bench {

using namespace gpipe;

inline constexpr int micro_batches = 32, micro_batch_size = 32, samples = micro_batches * micro_batch_size;

/// Rank 0 continues while the other sleeps and leaves its core free.
inline void sleep_until_signalled(int rank) {
  MPI_Request request = MPI_REQUEST_NULL;
  char word = 0;
  if (rank == 0) MPI_Isend(&word, 1, MPI_CHAR, 1, 0, MPI_COMM_WORLD, &request);
  else MPI_Irecv(&word, 1, MPI_CHAR, 0, 0, MPI_COMM_WORLD, &request);
  for (int done = 0; MPI_Test(&request, &done, MPI_STATUS_IGNORE), !done;) usleep(1000);
}

/// Two stages in two processes, and in two threads of one of them, alternating. Records `<name>.share`.
inline void measure_share(const std::string& name, int rounds) {
  mpi::job job;
  const random_images made(samples);
  const batch on = made.all();
  for (const schedule_kind schedule : {schedule_kind::one_f_one_b, schedule_kind::fill_drain}) {
    const plan_options options{.stages = 2,
                               .micro_batches = micro_batches,
                               .micro_batch_size = micro_batch_size,
                               .recompute = recompute_mode::never,
                               .schedule = schedule};
    using training = trainer<mlp, sgd>;
    const sgd rule{.learning_rate = 1e-3};
    training_options how;
    how.job = &job;
    training processes(options, rule, how);
    std::unique_ptr<training> threads;
    if (job.rank() == 0) threads = std::make_unique<training>(options, rule);
    constexpr int steps = 3;
    const auto run = [&](training& it) {
      return timed([&] {
        for (int i = 0; i < steps; ++i) it.step(on);
      });
    };
    std::vector<double> share, rate;
    for (int round = -1; round < rounds; ++round) {  // the first round touches memory
      const double before = threads ? run(*threads) : 0;
      sleep_until_signalled(job.rank());
      const double apart = run(processes);
      const double together = (before + (threads ? run(*threads) : 0)) / 2;
      sleep_until_signalled(job.rank());
      if (round < 0) continue;
      share.push_back(together / apart);
      rate.push_back(6e-9 * static_cast<double>(network_of<mlp>.parameters()) * samples * steps / apart);
    }
    const std::string suffix = schedule == schedule_kind::fill_drain ? "" : ".1f1b";
    if (job.rank() != 0) continue;
    std::printf("mlp, %s: two processes %.1f GFLOP/s, of two threads %.3f (10 %% %.3f, 90 %% %.3f)\n",
                name_of(schedule), median(rate), median(share), quantile(share, 0.1), quantile(share, 0.9));
    result(name + ".share" + suffix, median(share), "ratio");
    result(name + ".gflops" + suffix, median(rate), "GFLOP/s");
  }
}

}  // namespace bench
