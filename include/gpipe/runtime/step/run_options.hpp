#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>

#include <gpipe/core/config.hpp>
#include <gpipe/plan/program/lower.hpp>
#include <gpipe/transport/contract/process_group.hpp>
#include <gpipe/transport/contract/wait_limits.hpp>

namespace gpipe {

/// What a run may be told beside its plan.
struct run_options {
  std::uint64_t seed = 0;
  std::chrono::nanoseconds deadline = patience{}.deadline;  ///< without progress of any worker
  std::size_t trace_events = 0;                             ///< kept for each worker; 0: no trace
  std::byte arena_fill{0};                                  ///< what memory holds before its first use
  std::size_t digest_calls = 0;                             ///< of train and accumulate, hashed; 0: no digest
  bool canary = GPIPE_CANARY;  ///< poisons what is dead, so that a layer which reads it makes NaN of its gradients
  /// Emulates links: what one worker sends another is there when a link of so many bytes a second has carried it, each
  /// direction one transfer after the other. 0: at once.
  std::int64_t link_bytes_per_second = 0;
  bool slot_times = false;  ///< whether each slot is timed in every step, for `measured`
  /// What devices are asked for until the gate is written down as a graph, in the first step and in each that is unlike
  /// the one before, and launched in those that are like it: with other batches of as many samples, unless a layer
  /// draws random numbers. For devices that have graphs, and a plan of one worker. The bits are the same.
  bool graph = false;
  gpipe::peers* peers = nullptr;  ///< the job whose every process is one of the plan's workers; null: alone
  /// Called by every worker before each instruction of a step until it is committed: of a worker's updates, before the
  /// first. What it throws fails the step.
  std::function<void(const instruction&)> before{};
};

}  // namespace gpipe
