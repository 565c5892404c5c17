#include <gpipe/runtime/replicas/process_all_reduce.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>

#include <gpipe/device/host/host.hpp>
#include <gpipe/make_plan.hpp>

#include "support/replica_gradients.hpp"
#include "support/threaded_job.hpp"

using namespace laws;

namespace {

/// Layers 2 and 4 fill one bucket each; layer 0 is in the last bucket.
struct net : model<input<float, 16>, linear<512>, gelu, linear<512>, gelu, linear<512>, gelu, linear<8>,
                   softmax_cross_entropy> {};

constexpr int R = 3;
constexpr wait_context reduces{.stage = 0, .micro_batch = -1, .action = "reduce"};
constexpr std::byte untouched{0x5a};

/// One process of the job: a replica of one stage.
struct process {
  step_plan plan;
  gpipe::detail::worker_signals wake_signals{1};
  gpipe::detail::replica its;
  gpipe::detail::process_all_reduce sums;

  explicit process(process_group& job, shard shares = shard::none)
      : plan(make_plan(network_of<net>, {.micro_batches = 2,
                                         .micro_batch_size = 2,
                                         .separate_memory = true,
                                         .replicas = job.ranks(),
                                         .shard = shares})),
        its(gpipe::detail::device_of<gpipe::host_device>, network_of<net>, plan, job.rank(), {plan, &job}, wake_signals,
            untouched, {}),
        sums((bind(), job), network_of<net>, plan, its) {}

  const gpipe::detail::bound_stage& stage() const { return its.stage(0); }
  int wrong(std::size_t first = 0) const { return wrong_sums(stage(), R, first); }

 private:
  void bind() { its.bind(gpipe::detail::kernels_of<net, host::context>, false); }
};

/// Returns when all processes have come here.
void meet(process_group& job) {
  std::byte nothing{};
  for (int r = 0; r < job.ranks(); ++r) job.broadcast(&nothing, 1, r, 0);
}

}  // namespace

TEST_CASE("every process gets the sums, made in ascending order of replicas; in an accumulate pass only the first") {
  std::atomic<int> wrong{0};
  threaded::job job(R);
  job.run([&](process_group& here) {
    process p(here);
    for (const bool commits : {true, true, false, true}) {
      fill(p.stage(), here.rank());
      p.sums.sum(here.rank(), 0, reduces, commits);
      wrong += commits || here.rank() == 0 ? p.wrong() : not_zero(p.stage());
    }
    meet(here);
  });
  CHECK(wrong == 0);
}

TEST_CASE("with shares every process gets the sums of its own; in an accumulate pass the first gets all") {
  std::atomic<int> wrong{0};
  threaded::job job(R);
  job.run([&](process_group& here) {
    process p(here, shard::optimizer_state);
    for (const bool commits : {true, false, true}) {
      fill(p.stage(), here.rank());
      p.sums.sum(here.rank(), 0, reduces, commits);
      wrong += commits ? wrong_sums_of_share(p.stage(), R) : here.rank() == 0 ? p.wrong() : not_zero(p.stage());
    }
    const stage_share& own = p.stage().share();
    std::fill_n(p.stage().parameters(), p.stage().flat_bytes(), std::byte(here.rank() + 1));
    meet(here);  // a faster process sends its share to this one's memory
    p.sums.gather(here.rank(), 0, reduces);
    for (std::int64_t at = 0; at < static_cast<std::int64_t>(p.stage().flat_bytes()); ++at) {
      const int number = std::to_integer<int>(p.stage().parameters()[at]) - 1;
      wrong += (number == here.rank()) != (own.begin <= at && at < own.end());
    }
    meet(here);
  });
  CHECK(wrong == 0);
}

TEST_CASE("a bucket is summed as soon as its slices have arrived, while other buckets may still change") {
  std::atomic<int> wrong{0}, late{0};
  threaded::job job(R, 7);
  job.run([&](process_group& here) {
    process p(here);
    const std::size_t first = p.stage().flat_bytes() / sizeof(float);
    const auto* const begin = reinterpret_cast<float*>(p.stage().gradients());
    const auto at = static_cast<std::size_t>(reinterpret_cast<float*>(p.stage().at(4).owned.gradients) - begin);
    for (int step = 0; step < 2; ++step) {
      fill(p.stage(), here.rank());
      const auto all = gradients(p.stage());
      std::fill(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(at), 0.0F);  // not computed yet
      if (p.sums.begin(here.rank(), 0, 7, reduces) || p.sums.begin(here.rank(), 0, 5, reduces))
        ++wrong;  // layer 4 belongs to the bucket
      if (!p.sums.begin(here.rank(), 0, 4, reduces)) ++wrong;
      const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (!p.sums.begin(here.rank(), 0, 4, reduces) && std::chrono::steady_clock::now() < until)
        std::this_thread::yield();
      if (p.sums.begin(here.rank(), 0, 4, reduces)) ++wrong;  // nothing is left to do
      // This process's slice is summed, and no other bucket has changed.
      const std::size_t bytes = (first - at) * sizeof(float);
      const std::size_t from = at + gpipe::detail::slice_begin(bytes, here.rank(), R) / sizeof(float);
      const std::size_t to = at + gpipe::detail::slice_begin(bytes, here.rank() + 1, R) / sizeof(float);
      for (std::size_t i = from; i < to; ++i) late += all[i] != sum_of(R, i);
      for (std::size_t i = 0; i < at; ++i) wrong += all[i] != 0;
      for (std::size_t i = 0; i < at; ++i) all[i] = found_by(here.rank(), i);
      p.sums.sum(here.rank(), 0, reduces, true);
      wrong += p.wrong();
    }
    meet(here);
  });
  CHECK(wrong == 0);
  CHECK(late == 0);
}

TEST_CASE("after a failure reset drops started reductions, and the next sums are right") {
  std::atomic<int> wrong{0};
  threaded::job job(R);
  job.run([&](process_group& here) {
    process p(here);
    fill(p.stage(), here.rank());
    if (here.rank() != 2 && !p.sums.begin(here.rank(), 0, 4, reduces)) ++wrong;
    if (here.rank() == 1) here.fail(error("thrown here", ""));
    try {
      for (;; std::this_thread::yield()) here.begin(reduces);
    } catch (const detail::interrupted&) {
    }
    here.recover();
    p.sums.reset();
    fill(p.stage(), here.rank());
    p.sums.sum(here.rank(), 0, reduces, true);
    wrong += p.wrong();
    meet(here);
  });
  CHECK(wrong == 0);
}

TEST_CASE("slices of other replicas use the landing buffer of the plan, all of it and no more") {
  std::atomic<std::size_t> used{0}, planned{0};
  std::atomic<int> beyond{0};
  threaded::job job(R);
  job.run([&](process_group& here) {
    process p(here);
    const std::byte* const landing = p.stage().map().find(memory_kind::landing, -1, -1).base;
    const auto bytes = static_cast<std::size_t>(p.stage().memory().of(memory_kind::landing));
    fill(p.stage(), here.rank());
    p.sums.sum(here.rank(), 0, reduces, true);
    std::size_t touched = bytes;
    while (touched > 0 && landing[touched - 1] == untouched) --touched;
    for (std::size_t seen = used; touched > seen && !used.compare_exchange_weak(seen, touched);) {
    }
    for (const std::byte* after = landing + bytes; after < landing + bytes + gpipe::detail::alignment; ++after)
      beyond += *after != untouched;
    planned = bytes;
    meet(here);
  });
  CHECK(used <= planned);
  CHECK(planned - used <=
        3 * (R - 1) * gpipe::detail::alignment);  // each of three buckets is cut into slices of whole lines
  CHECK(beyond == 0);
}

TEST_CASE("each process sends and receives (R - 1) / R of the gradients twice, which does not grow with R") {
  for (const int replicas : {2, 4, 7}) {
    CAPTURE(replicas);
    std::atomic<std::size_t> gradients{0};
    threaded::job job(replicas);
    job.run([&](process_group& here) {
      process p(here);
      fill(p.stage(), here.rank());
      p.sums.sum(here.rank(), 0, reduces, true);
      gradients = p.stage().flat_bytes();
      meet(here);
    });
    for (int r = 0; r < replicas; ++r) {
      const auto carried = static_cast<double>(job.carried(r)), bytes = static_cast<double>(gradients.load());
      CHECK(carried / bytes == doctest::Approx(4.0 * (replicas - 1) / replicas).epsilon(0.01));
    }
  }
}
