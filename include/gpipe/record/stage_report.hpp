#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <vector>

#include <gpipe/plan/cost/profile.hpp>
#include <gpipe/plan/schedule/contract/action.hpp>

namespace gpipe {

/// One stage of a replica: the plan's prediction and the measurement. Holds the layers [first, last).
struct stage_report {
  int stage = 0, first = 0, last = 0;
  double predicted_share = 0;              ///< of the time of all stages
  std::array<std::int64_t, 12> busy_ns{};  ///< by `action_kind`, without waiting
  std::int64_t wait_ns = 0;                ///< for other stages and for data on a link
  std::int64_t link_ns = 0;                ///< the part of wait_ns in which the data was on a link
  std::size_t bytes = 0;                   ///< predicted memory
  std::size_t parameters = 0;              ///< their number
  int replica = 0;                         ///< of the pipeline
  int worker = 0;                          ///< that runs it, counted over all replicas
  int process_workers = 1;                 ///< workers of the process that runs it
  int bound_to = 0;                        ///< cores that its process may run on; 0: all of the machine, or unknown
  int host_processes = 1;                  ///< of the job, on the host of its process
  int host_workers = 1;                    ///< of these processes
  int host_bound_to = 0;                   ///< cores that they may run on together; 0: all of the machine, or unknown
  int own_cores = 0;                       ///< that its worker is bound to; 0: it is not bound
  int core_sharers = 1;                    ///< workers of its process that share one of these cores
  bool far_memory = false;                 ///< the system refused to move its memory to these cores
  int steps = 0;                           ///< measured, the same for all stages
  std::int64_t step_ns = 0;                ///< all these steps from call to return, the same for all stages

  std::int64_t& busy(action_kind kind) { return busy_ns[static_cast<std::size_t>(kind)]; }
  std::int64_t busy(action_kind kind) const { return busy_ns[static_cast<std::size_t>(kind)]; }

  /// The time of all actions.
  std::int64_t busy() const {
    std::int64_t sum = 0;
    for (const auto ns : busy_ns) sum += ns;
    return sum;
  }
};

// change: an action
static_assert(static_cast<std::size_t>(action_kind::update) + 1 == std::tuple_size_v<decltype(stage_report::busy_ns)>);

// change: a profile from a file; owns the names
/// A profile with its lines, measured while the program runs. `plan_options{.profile = costs.view()}` plans with it; it
/// must outlive the plan. Written to a file, it is the table of `profiled<measured>`.
struct measured_profile {
  std::vector<measured_layer> layers;
  int micro_batch_size = 0;

  profile view() const& { return {layers.data(), static_cast<int>(layers.size()), micro_batch_size}; }
  profile view() const&& = delete;  // keep the measured profile for as long as its view
};

}  // namespace gpipe
