#pragma once

#include <gpipe/core/config.hpp>
#include <gpipe/transport/in_process/worker_signals.hpp>

#include <atomic>
#include <cassert>
#include <cstdint>
#include <string>
#include <utility>

namespace gpipe {

/// Where workers meet, such as before a commit: all of a line, or some, whose seats are equally far apart. The last to
/// arrive runs a function, then all go on.
///
/// All or none: either the function ran and every worker returns, or it did not and every worker throws. A worker
/// that must leave (poison, deadline) first takes back its arrival; once all have arrived nobody can.
///
///     state = round << 32 | arrived
class gate {
 public:
  gate(lifeline& line, int workers, int first = 0, int every = 1)
      : line_(&line), workers_(static_cast<std::uint64_t>(workers)), first_(first), every_(every) {
    assert(workers > 0 && first >= 0 && every > 0 && first + (workers - 1) * every < line.workers());
  }

  /// What the workers wrote before they arrived is seen by `commit`, what `commit` wrote by all of them.
  /// Throws as `lifeline::wait` does. After a failure the gate is as new when the last worker has left.
  template <class Commit>
  void arrive(int worker, errand what, Commit&& commit) {
    static_assert(noexcept(commit()), "a commit cannot fail half-way");
    if (line_->poisoned()) throw detail::poisoned{};
    line_->progress(worker);
    const auto before = state_.fetch_add(1, std::memory_order_acq_rel);
    const auto round = before >> 32;
    if (arrived(before) + 1 == workers_) {
      std::forward<Commit>(commit)();
      state_.store((round + 1) << 32, std::memory_order_release);
      for (int i = 0, w = first_; i < static_cast<int>(workers_); ++i, w += every_)
        if (w != worker) line_->wake(w);
      return;
    }
    const auto open = [this, round] { return state_.load(std::memory_order_acquire) >> 32 != round; };
    const auto end = line_->outlast(worker, open);
    if (end == detail::outcome::ready) return;
    if (take_back(round)) line_->fail(end, worker, what, "the others at the gate");
    line_->rest(worker, open);
  }

  /// The same with nothing to run.
  void arrive(int worker, errand what = {}) {
    arrive(worker, what, []() noexcept {});
  }

 private:
  static std::uint64_t arrived(std::uint64_t state) { return state & 0xffffffffu; }

  bool take_back(std::uint64_t round) {
    auto state = state_.load(std::memory_order_acquire);
    while (state >> 32 == round && arrived(state) < workers_)
      if (state_.compare_exchange_weak(state, state - 1, std::memory_order_acq_rel)) return true;
    return false;
  }

  lifeline* line_;
  std::uint64_t workers_;
  int first_, every_;
  alignas(alignment) std::atomic<std::uint64_t> state_{0};
};

}  // namespace gpipe
