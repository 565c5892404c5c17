#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <gpipe/core/descriptions/optimizer.hpp>
#include <gpipe/job.hpp>
#include <gpipe/train/trainer.hpp>

#include "nets.hpp"
#include "threaded_job.hpp"

namespace laws {

/// Steps, one of them with a frozen layer and one over accumulated gradients: every process of a job has the bits of
/// one process, with a worker each and with several. `more(training, found)` adds what else each of them has.
template <class Net, class Data, class More>
void a_job_has_the_bits_of_one(const Data& data, plan_options options, int frozen, const More& more) {
  const int R = options.replicas;
  options.workers = options.stages;
  const auto bits_of = [&](process_group* here) {
    training_options how{.seed = 3, .max_grad_norm = 0.1};
    how.arena_fill = std::byte{0xff};
    how.canary = true;
    how.job = here;
    trainer<Net, adam> t(options, adam{.learning_rate = 0.05}, how);
    std::vector<std::uint64_t> found;
    const auto step = [&] {
      found.push_back(std::bit_cast<std::uint64_t>(t.step(data.take(0, 13 * R)).loss));
      found.push_back(gradients_of(t));
      found.push_back(state_of(t));
    };
    step();
    t.freeze(frozen);
    step();
    t.unfreeze(frozen);
    t.accumulate(data.take(13, 9));
    step();
    more(t, found);
    found.push_back(std::bit_cast<std::uint64_t>(t.evaluate(data.take(0, 9)).loss));
    return found;
  };
  const auto expected = bits_of(nullptr);
  for (const int ranks : {R * options.workers, R * ((options.workers + 1) / 2)}) {
    threaded::job job(ranks);
    std::vector<std::vector<std::uint64_t>> found(static_cast<std::size_t>(ranks));
    job.run([&](process_group& here) { found[static_cast<std::size_t>(here.rank())] = bits_of(&here); });
    for (const auto& of_rank : found) CHECK(of_rank == expected);
  }
}

}  // namespace laws
