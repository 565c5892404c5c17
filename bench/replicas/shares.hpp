#pragma once

// Two replicas in two processes, with and without shares; and the bytes that four replicas keep for a parameter.

#include "../measure.hpp"
#include "../networks.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <gpipe/runtime/executor.hpp>

#if GPIPE_WITH_MPI
#include <gpipe/job.hpp>
#include <gpipe/mpi.hpp>
#endif

namespace bench {

/// Layers of a MiB each.
struct equal_layers : gpipe::model<gpipe::input<float, 512>, gpipe::repeat<64, gpipe::linear<512, gpipe::no_bias>>,
                                   gpipe::softmax_cross_entropy> {};

/// Parameters, gradients and moments of a replica in bytes a parameter, as planned and as touched by a step.
inline void measure_bytes(gpipe::shard shares) {
  using namespace gpipe;
  constexpr std::byte fill{0xa5};
  trainer<equal_layers, adam> training({.micro_batch_size = 2, .replicas = 4, .shard = shares}, {},
                                       {.arena_fill = fill});
  const std::vector<float> images(8 * 512, 0.5F);
  const std::vector<std::int32_t> labels(8, 1);
  training.step(batch(8).with("inputs", images).with("labels", labels));
  const auto parameters = static_cast<double>(network_of<equal_layers>.parameters());
  const stage_memory& memory = training.plan().memory(0);
  const auto planned = static_cast<double>(memory.before(static_cast<int>(memory_kind::arrays)));
  std::size_t touched = 0;
  for (std::size_t at = 0; at < static_cast<std::size_t>(planned); at += detail::alignment) {
    bool changed = false;
    for (int r = 0; r < 4; ++r)
      for (std::size_t i = 0; i < detail::alignment; ++i)
        changed = changed || training.executor().stage(0, r).arena().data()[at + i] != fill;
    touched += changed ? detail::alignment : 0;
  }
  std::printf("4 replicas, Adam, shard %s: planned %.4f bytes a parameter, touched %.4f\n", name_of(shares),
              planned / parameters, static_cast<double>(touched) / parameters);
  result(std::string("replicas.bytes.") + name_of(shares), planned / parameters, "bytes");
}

#if GPIPE_WITH_MPI

/// In each of two processes: steps of two replicas, without shares and with each choice, alternating.
inline void measure_sharded(int rounds) {
  using namespace gpipe;
  mpi::job job;
  const random_images made(2 * 8 * 32);
  const batch on = made.all();
  training_options how;
  how.job = &job;
  const auto made_with = [&](shard shares) {
    return trainer<mlp, adam>({.micro_batches = 8,
                               .micro_batch_size = 32,
                               .recompute = recompute_mode::never,
                               .replicas = 2,
                               .shard = shares,
                               .group_gradients = 8},
                              {}, how);
  };
  auto whole = made_with(shard::none), state = made_with(shard::optimizer_state),
       gradients = made_with(shard::gradients);
  constexpr int steps = 5;
  const auto seconds = [&](trainer<mlp, adam>& it) {
    return timed([&] {
      for (int i = 0; i < steps; ++i) it.step(on);
    });
  };
  std::vector<double> of_state, of_gradients, each;
  for (int round = -1; round < rounds; ++round) {  // the first round touches memory
    const double before = seconds(whole), first = seconds(gradients), second = seconds(state), after = seconds(whole);
    if (round < 0) continue;
    each.push_back((before + after) / 2 / steps);
    of_gradients.push_back(2 * first / (before + after));
    of_state.push_back(2 * second / (before + after));
  }
  if (job.rank() != 0) return;
  std::printf("mlp, 8 micro-batches of 32 in each of 2 processes, Adam: %.1f ms a step without shares\n",
              1e3 * median(each));
  const auto row = [](const char* name, const std::vector<double>& found) {
    std::printf("  %-16s %.3f of it (10 %% %.3f, 90 %% %.3f)\n", name, median(found), quantile(found, 0.1),
                quantile(found, 0.9));
  };
  row("optimizer-state", of_state), row("gradients", of_gradients);
  result("replicas.sharded.state", median(of_state), "ratio");
  result("replicas.sharded", median(of_gradients), "ratio");
}

#else

inline void measure_sharded(int) {}

#endif

}  // namespace bench
