#pragma once

#include <gpipe/core/config.hpp>
#include <gpipe/transport/in_process/worker_signals.hpp>

#include <atomic>
#include <cassert>
#include <cstdint>
#include <utility>

namespace gpipe::detail {

/// A barrier for all workers of a job or for every n-th of them, such as before a commit. The last worker to arrive
/// runs a function, then all continue.
///
/// All or none: either the function ran and every worker returns, or it did not run and every worker throws. A worker
/// that must leave (a failure elsewhere, a deadline) first withdraws its arrival; after the last arrival it cannot.
///
///     state = round << 32 | arrived
template <class Threads>
class basic_barrier {
 public:
  basic_barrier(basic_worker_signals<Threads>& wake_signals, int workers, int first = 0, int every = 1)
      : signals_(&wake_signals), workers_(static_cast<std::uint64_t>(workers)), first_(first), every_(every) {
    assert(workers > 0 && first >= 0 && every > 0 && first + (workers - 1) * every < wake_signals.workers());
  }

  /// All writes of the workers before their arrival are visible to `commit`, and its writes to all workers. Throws as
  /// `worker_signals::wait` does. After a failure the barrier is reset when the last worker has left.
  template <class Commit>
  void arrive(int worker, wait_context context, Commit&& commit) {
    static_assert(noexcept(commit()), "a commit cannot fail half-way");
    const std::uint64_t before = enter(worker), round = before >> 32;
    if (arrived(before) + 1 < workers_) return await_others(round, worker, context);
    std::forward<Commit>(commit)();
    open(round, worker);
  }

  /// The same without a function to run.
  void arrive(int worker, wait_context context = {}) {
    arrive(worker, context, []() noexcept {});
  }

 private:
  static std::uint64_t arrived(std::uint64_t state) { return state & 0xffffffffu; }

  std::uint64_t enter(int worker) {
    if (signals_->interrupted()) throw detail::interrupted{};
    signals_->progress(worker);
    return state_.fetch_add(1, std::memory_order_acq_rel);
  }
  // The last worker releases all others.
  void open(std::uint64_t round, int worker) noexcept {
    state_.store((round + 1) << 32, std::memory_order_release);
    for (int i = 0, w = first_; i < static_cast<int>(workers_); ++i, w += every_)
      if (w != worker) signals_->wake(w);
  }
  GPIPE_OUT_OF_LINE void await_others(std::uint64_t round, int worker, const wait_context& context) {
    const auto is_open = [this, round] { return state_.load(std::memory_order_acquire) >> 32 != round; };
    const auto end = signals_->try_wait(worker, is_open);
    if (end == detail::wait_result::ready) return;
    if (withdraw(round)) signals_->fail(end, worker, context, "the others at the barrier");
    signals_->wait_idle(worker, is_open);
  }
  bool withdraw(std::uint64_t round) {
    auto state = state_.load(std::memory_order_acquire);
    while (state >> 32 == round && arrived(state) < workers_)
      if (state_.compare_exchange_weak(state, state - 1, std::memory_order_acq_rel)) return true;
    return false;
  }

  basic_worker_signals<Threads>* signals_;
  std::uint64_t workers_;
  int first_, every_;
  alignas(alignment) typename Threads::template atomic<std::uint64_t> state_{0};
};

/// The barrier of threads.
using barrier = basic_barrier<detail::thread_primitives>;

}  // namespace gpipe::detail
