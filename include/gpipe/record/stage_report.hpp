#pragma once

#include <gpipe/plan/schedule/action.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <tuple>

namespace gpipe {

/// What is known of one stage of a replica: told by the plan before, measured after. Holds the slots [first, last).
struct stage_report {
  int stage = 0, first = 0, last = 0;
  double predicted_share = 0;              ///< of the time of all stages
  std::array<std::int64_t, 12> busy_ns{};  ///< by `act`, without waiting
  std::int64_t wait_ns = 0;                ///< for other stages, and for what is on its way from them
  std::int64_t link_ns = 0;                ///< of this, the time that what it waited for spent on a link
  std::size_t bytes = 0;                   ///< predicted memory
  std::size_t parameters = 0;              ///< their number
  int replica = 0;                         ///< of the pipeline
  int worker = 0;                          ///< whose it is, counted through all replicas
  int steps = 0;                           ///< measured, the same for all stages
  std::int64_t step_ns = 0;                ///< of all these steps from call to return, the same for all stages

  std::int64_t& busy(act kind) { return busy_ns[static_cast<std::size_t>(kind)]; }
  std::int64_t busy(act kind) const { return busy_ns[static_cast<std::size_t>(kind)]; }

  /// The time of all actions.
  std::int64_t busy() const {
    std::int64_t sum = 0;
    for (const auto ns : busy_ns) sum += ns;
    return sum;
  }
};

static_assert(static_cast<std::size_t>(act::update) + 1 == std::tuple_size_v<decltype(stage_report::busy_ns)>);

}  // namespace gpipe
