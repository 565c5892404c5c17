#pragma once

#include <cstdint>

#include <gpipe/core/config.hpp>
#include <gpipe/transport/contract/wait_limits.hpp>

namespace gpipe::detail {

// assumes: one parameter type
// assumes: replicas keep all parameters
/// Sums the gradients of a stage over all replicas, elementwise and in ascending order of replicas, so that every
/// implementation gives the same bits; and gathers the partials that layers computed for each micro-batch. If replicas
/// keep shares, it also gathers the parameters that each has updated.
///
///     none     sum: a slice each | all get the sums | update                | ...
///     shares   sum: a share each |                  | update of the share   | ... next pass: gather the parameters
class all_reduce {
 public:
  virtual ~all_reduce() = default;

  /// Whether a call has started or advanced a reduction, and for how many nanoseconds the worker waited for others.
  struct progress {
    bool moved = false;
    std::int64_t waited = 0;

    explicit operator bool() const { return moved; }
  };

  /// Called by one worker per replica after the backward of its stage, for stages in the same order. If the pass
  /// commits, every replica gets the sums, or, with shares, only the sums of its share. Otherwise replica 0 gets all
  /// sums, and the others get zeros, to which the next call adds. Returns the nanoseconds that the worker waited for
  /// others. Throws if a wait fails.
  virtual std::int64_t sum(int replica, int stage, const wait_context& wait, bool commits) = 0;

  /// Called before `sum`, any number of times: the gradients of the stage's layers from `layer` on do not change until
  /// `sum`. It waits for others only if gradients leave the memory of their stage, because the next ones need it.
  /// Otherwise, in one process, it does nothing, because only the workers could do the work.
  virtual progress begin(int replica, int stage, int layer, const wait_context& wait) = 0;
  /// Called before a pass by one worker per replica: copies the parameters of the other shares from the replicas that
  /// have updated them. It may fail and be called again, because this replica never updates these parameters. Returns
  /// the nanoseconds that the worker waited.
  virtual std::int64_t gather(int replica, int stage, const wait_context& wait) = 0;
  /// A call has failed: drops what `begin` has started.
  virtual void reset() {}
};

}  // namespace gpipe::detail
