#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/core/hash.hpp>
#include <gpipe/plan/memory/array_location.hpp>
#include <gpipe/plan/memory/shares.hpp>
#include <gpipe/plan/step_plan.hpp>
#include <gpipe/runtime/binding/initial_values.hpp>
#include <gpipe/runtime/processes/rank_layout.hpp>
#include <gpipe/runtime/replicas/replica.hpp>

namespace gpipe::detail {

/// Reads and writes arrays of layers, in whichever stage they are.
class parameter_access {
 public:
  parameter_access(const network& net, const step_plan& plan, const rank_layout& ranks, const replica_list& replicas);

  // assumes: replicas keep all parameters
  /// The replica that updates a layer, if replicas keep shares; else the first.
  int owner_of(int layer) const { return owners_[index(layer)]; }
  /// The replica that is certain to have the array: its owner, or the first replica for gradients that `wait` for a
  /// step. Without shares, and for state, all replicas have it: `fallback`.
  int holder_of(const array_location& array, int fallback, bool wait = false) const;

  /// The address, in the memory of a stage of this process.
  std::byte* address(const array_location& array, int replica) const;

  /// Whether this process has a layer's memory, in this replica or in any.
  bool is_here(int layer, int replica) const { return ranks_.has_stage(replica, stage_of(layer)); }
  bool is_here(int layer) const { return replica_with(layer) >= 0; }
  /// The first replica whose memory of a layer this process has; -1: none.
  int replica_with(int layer) const;
  /// Copies an array from the replica that is certain to have it, if that is in this process. Otherwise a parameter has
  /// the value that was last gathered, and an array that only its owner keeps is not copied.
  void read_own(const array_location& array, void* target) const;
  /// Copies an array of this process.
  void read_here(const array_location& array, void* target, int replica) const;
  /// Copies an array to all processes.
  void read(const array_location& array, void* target, int replica, const broadcast& processes) const;
  /// Sets an array in every replica of this process that has it.
  void write(const array_location& array, const void* values) const;
  /// Recomputes all buffers that are derived from parameters.
  void refresh() const;

  /// Sets the first values of all parameters and state of this process.
  void initialize(std::uint64_t seed) const;

 private:
  bool in_shares() const { return plan_.trains && plan_.options.shares() > 1; }
  /// Moments, arrays and averages have memory in their owner alone.
  bool has(int replica, const array_location& array) const;
  int stage_of(int layer) const { return plan_.cut().stage_of(layer); }
  const bound_stage& stage_with(int layer, int replica) const { return replicas_.at(replica).stage(stage_of(layer)); }

  const network& net_;
  const step_plan& plan_;
  const rank_layout& ranks_;
  const replica_list& replicas_;
  std::vector<int> owners_;  // [layer]
};

}  // namespace gpipe::detail

#if !GPIPE_COMPILED
#include <gpipe/runtime/parameter_access-inl.hpp>
#endif
