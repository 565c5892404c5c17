#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/core/descriptions/parameter_group.hpp>
#include <gpipe/core/descriptions/rate.hpp>
#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/runtime/step/cut_choice.hpp>
#include <gpipe/runtime/step/job_choice.hpp>
#include <gpipe/runtime/step/link_choice.hpp>
#include <gpipe/transport/contract/wait_limits.hpp>
#include <gpipe/transport/in_process/core_placement.hpp>

namespace gpipe {

/// The action if a kernel has not returned a deadline after the last progress.
enum class deadline_action : std::uint8_t {
  fail,   ///< the call throws; if a kernel still runs on the calling thread, it cannot, and this acts as `abort`
  abort,  ///< a further thread prints where the kernel is, and ends the process by `std::abort`
};

// change: a training option
/// The options of a training in addition to its plan and its optimizer:
/// `{.seed = 7, .learning_rate_schedule = cosine{1000}, .max_grad_norm = 1}`. An executor takes them all too; it gets
/// the learning rate and the norm with each step, and the cut with its plan.
struct training_options {
  std::uint64_t seed = 0;
  rate_schedule learning_rate_schedule = constant{};  ///< multiplies the optimizer's learning rate
  double max_grad_norm = 0;               ///< the largest norm of the mean gradient (Pascanu et al., 2012); 0: no limit
  std::vector<parameter_group> groups{};  ///< parameters with their own settings; the first that matches applies
  double average_weights = 0;  ///< keeps a moving average of the weights with this decay, such as 0.9999; 0: none
  cut_choice cut{};            ///< the first layer of every stage but the first; empty: the best cut

  std::chrono::nanoseconds deadline = wait_limits{}.deadline;  ///< a call fails after this time without progress
  deadline_action on_deadline = deadline_action::fail;
  std::size_t trace_events = 0;  ///< events kept for each worker; 0: no trace
  std::byte arena_fill{0};       ///< the value of memory before its first use
  std::size_t digest_calls = 0;  ///< calls of train and accumulate that are hashed; 0: no digest
  bool canary = GPIPE_CANARY;    ///< poisons dead buffers, so that a layer that reads one makes its gradients NaN
  /// Emulates links: a transfer between two workers arrives when a link with this many bytes per second would have
  /// carried it. Each direction carries one transfer after the other. 0: no emulation. Include <gpipe/testing.hpp>.
  link_choice link_bytes_per_second{};
  bool layer_times = false;  ///< times each layer in every step, for `layer_profile`
  /// Each worker records the operations of a step until the commit as graphs, and launches them in later steps: one
  /// graph, or with several workers one between two points where they order themselves. A step with another number of
  /// samples is recorded again, and so is every step of a worker with a layer that draws random numbers. For devices
  /// that have graphs, in one process and one replica. The bits are the same.
  bool graph = false;
  job_choice job{};  ///< each process of the job is one of the plan's workers; null: one process
  /// Binds each worker to its own cores, with its stages' memory near them: a `core_binding` of <gpipe/hwloc.hpp>,
  /// which outlives the training. The first worker, the calling thread, is bound during calls. Null: no worker is
  /// bound, and a worker that shares its core moves. The bits are the same.
  const core_placement* cores = nullptr;
  // change: a hook between backward and update
  /// Every worker calls this before each instruction of a step until the commit, which is before its first update. If
  /// it throws, the step fails.
  std::function<void(const instruction&)> before{};
};

}  // namespace gpipe
