#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include <gpipe/runtime/step/run_options.hpp>
#include <gpipe/core/descriptions/rate.hpp>

namespace gpipe {

/// What a training may be told beside its plan and its optimizer: `{.seed = 7, .learning_rate_schedule = cosine{1000}, .max_grad_norm = 1}`.
struct training_options {
  std::uint64_t seed = run_options{}.seed;
  rate_schedule learning_rate_schedule = constant{};  ///< multiplies the optimizer's learning rate
  double max_grad_norm = 0;                  ///< the largest norm of the mean gradient (Pascanu et al., 2012); 0: any
  std::vector<int> cut{};           ///< the first slot of every stage but the first; empty: the best cut

  // As in run_options.
  std::chrono::nanoseconds deadline = run_options{}.deadline;
  std::size_t trace_events = run_options{}.trace_events;
  std::byte arena_fill = run_options{}.arena_fill;
  std::size_t digest_calls = run_options{}.digest_calls;
  bool canary = run_options{}.canary;
  std::int64_t link_bytes_per_second = run_options{}.link_bytes_per_second;
  bool slot_times = run_options{}.slot_times;
  bool graph = run_options{}.graph;
  process_group* job = nullptr;
  std::function<void(const instruction&)> before{};

  run_options run() const {
    return {seed, deadline, trace_events, arena_fill, digest_calls, canary, link_bytes_per_second, slot_times, graph,
            job, before};
  }
};

}  // namespace gpipe
