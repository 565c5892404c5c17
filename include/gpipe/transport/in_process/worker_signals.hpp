#pragma once

#include <algorithm>
#include <atomic>
#include <cassert>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include <gpipe/core/config.hpp>
#include <gpipe/core/error.hpp>
#include <gpipe/transport/contract/wait_limits.hpp>
#include <gpipe/transport/in_process/core_placement.hpp>

namespace gpipe::detail {

/// The atomics, mutexes and clocks of this folder's classes: the standard library's. Tests replace them with others, in
/// which every operation is a point at which a scheduler of the test may run another thread.
struct thread_primitives {
  template <class T>
  using atomic = std::atomic<T>;
  using mutex = std::mutex;
  using condition = std::condition_variable;
  using clock = std::chrono::steady_clock;

  static void pause() noexcept { detail::pause(); }
  static void yield() noexcept { std::this_thread::yield(); }
};

/// Lets the workers of an executor wait for each other: a worker spins, then sleeps; a failure anywhere ends every
/// wait, and so does a deadline without progress.
///
///     waiter     ready?  spin ...   asleep <- 1   ready?   sleep ...
///     notifier   make ready         asleep <- 0   was it 1: notify (12 us), else go on (a few ns)
///
/// Both *exchange* `asleep`, so the later of the two sees the earlier and no notification is lost; the reads of `ready`
/// need only acquire and release.
template <class Threads>
class basic_worker_signals {
 public:
  explicit basic_worker_signals(int workers) : basic_worker_signals(workers, wait_limits::of(workers)) {}

  basic_worker_signals(int workers, wait_limits limits)
      : workers_(workers), limits_(limits), waiters_(std::make_unique<waiter[]>(static_cast<std::size_t>(workers))) {
    assert(workers > 0);
    limits_.spin = (std::min)(limits_.spin, limits_.deadline);
  }

  int workers() const noexcept { return workers_; }
  const wait_limits& limits() const noexcept { return limits_; }

  /// Called by a worker after each action, or more often, to show progress. Only it writes to its cache line.
  void progress(int worker) noexcept {
    auto& ticks = at(worker).ticks;
    ticks.store(ticks.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  /// Interrupts every wait, now and until `reset`. From any thread, any number of times.
  void wake_all() noexcept {
    interrupted_.store(true, std::memory_order_release);
    for (int w = 0; w < workers_; ++w) wake(w);
  }
  bool interrupted() const noexcept { return interrupted_.load(std::memory_order_acquire); }

  /// Waits are possible again. Call it between steps, while no worker runs.
  void reset() noexcept {
    interrupted_.store(false, std::memory_order_release);
    expired_.store(false, std::memory_order_release);
  }

  /// Call it after making ready what the worker may wait for.
  void wake(int worker) noexcept {
    waiter& target = at(worker);
    if (target.asleep.exchange(0, std::memory_order_acq_rel) == 0) return;
    // The worker holds the mutex from its last check until it sleeps.
    { const std::lock_guard<mutex> asleep_by_now(target.mutex); }
    target.condition.notify_one();
  }
  /// The number of times that a worker has shown progress, and whether it waits, for a thread that watches it.
  std::uint64_t ticks(int worker) const noexcept { return at(worker).ticks.load(std::memory_order_relaxed); }
  bool waits(int worker) const noexcept { return at(worker).waits.load(std::memory_order_acquire); }
  bool asleep(int worker) const noexcept { return at(worker).asleep.load(std::memory_order_acquire) != 0; }

  /// Returns when `ready()`. Throws `detail::interrupted` after a failure elsewhere. After a deadline without progress
  /// one worker throws `gpipe::error` with `context` as its location and all others are interrupted. `awaited()`
  /// returns the text after "waits for" and is called only for that error.
  template <class Ready, class Awaited>
  void wait(int worker, wait_context context, Ready ready, Awaited awaited) {
    const auto end = try_wait(worker, ready);
    if (end != detail::wait_result::ready) fail(end, worker, context, awaited());
  }

  /// The same without throwing: `fail` throws. If `ready()`, a failure elsewhere does not matter.
  template <class Ready>
  detail::wait_result try_wait(int worker, Ready ready) {
    return spin(ready) ? detail::wait_result::ready : sleep(worker, predicate(ready), gives_up::on_failure);
  }

  // change: core binding
  /// Called when a worker begins or wakes: if another worker runs on its core, moves it to a core without one. A system
  /// may place a woken thread on the core of the thread that woke it, and leave both there for many steps while another
  /// core is idle. No thread is pinned. Workers that are bound to cores stay there.
  void spread(int worker) noexcept {
    if (limits_.yields || limits_.bound) return;
    const int core = detail::cores::here();
    at(worker).core.store(core, std::memory_order_relaxed);
    bool shared = false;
    for (int w = 0; w < workers_; ++w) shared = shared || (w != worker && core >= 0 && core_of(w) == core);
    if (!shared) return;
    detail::cores free;
    for (int w = 0; w < workers_; ++w)
      if (w != worker) free.exclude(core_of(w));
    free.move();
    at(worker).core.store(detail::cores::here(), std::memory_order_relaxed);
  }

  /// Between steps: waits without a deadline, and a failure does not end it.
  template <class Ready>
  void wait_idle(int worker, Ready ready) {
    if (!spin(ready)) sleep(worker, predicate(ready), gives_up::never);
  }

  /// At the end of a step: waits until the other workers are `ready()`, even after a failure elsewhere. Returns false
  /// if one of them is not: no worker made progress for a deadline, and it did not return soon after its waits had
  /// ended.
  template <class Ready>
  bool wait_for_rest(int worker, Ready ready) {
    if (spin(ready)) return true;
    if (sleep(worker, predicate(ready), gives_up::on_deadline) == detail::wait_result::ready) return true;
    expired_.store(true, std::memory_order_release);
    wake_all();
    return sleep(worker, predicate(ready), gives_up::soon) == detail::wait_result::ready;
  }

  [[noreturn]] GPIPE_COLD void fail(detail::wait_result end, int worker, wait_context context,
                                    const std::string& awaited) {
    std::string busy;
    for (int w = 0; w < workers_; ++w)
      if (w != worker && !at(w).waits.load(std::memory_order_acquire))
        busy += detail::concat({busy.empty() ? "worker " : " and ", w});
    const bool first =
        end != detail::wait_result::interrupted && !interrupted_.exchange(true, std::memory_order_acq_rel);
    at(worker).waits.store(false, std::memory_order_release);  // not before: the first counts those that wait
    if (!first) throw detail::interrupted{};
    expired_.store(true, std::memory_order_release);
    wake_all();
    const location where{.stage = context.stage, .micro_batch = context.micro_batch, .action = context.action};
    const std::string wrong = detail::concat(
        {"waits for ", awaited, ", and no worker made progress for ", detail::duration_text(limits_.deadline)});
    if (busy.empty())
      throw error(wrong, "every worker waits; look for a process that ended or programs that do not match", where);
    throw error(wrong, detail::concat({"see what ", busy, " does, or raise the deadline"}), where);
  }

 private:
  template <class T>
  using atomic = typename Threads::template atomic<T>;
  using mutex = typename Threads::mutex;

  struct alignas(alignment) waiter {
    atomic<std::uint64_t> ticks{0};
    alignas(alignment) atomic<int> asleep{0};
    atomic<int> core{-1};       // the worker's last known core; -1: it sleeps
    atomic<bool> waits{false};  // awake or asleep: from before the worker sleeps until its wait has ended
    typename Threads::mutex mutex;
    typename Threads::condition condition;
  };

  waiter& at(int worker) const noexcept {
    assert(worker >= 0 && worker < workers_);
    return waiters_[static_cast<std::size_t>(worker)];
  }

  int core_of(int worker) const noexcept { return at(worker).core.load(std::memory_order_relaxed); }

  std::uint64_t ticks() const noexcept {
    std::uint64_t sum = 0;
    for (int w = 0; w < workers_; ++w) sum += at(w).ticks.load(std::memory_order_relaxed);
    return sum;
  }

  /// Any `ready`, by reference and without its type: spinning is compiled for each, sleeping once.
  class predicate {
   public:
    template <class Ready>
    explicit predicate(Ready& ready)
        : ready_(&ready), call_([](void* argument) { return (*static_cast<Ready*>(argument))(); }) {}
    bool operator()() const { return call_(ready_); }

   private:
    void* ready_;
    bool (*call_)(void*);
  };

  template <class Ready>
  bool spin(Ready& ready) const {
    if (ready()) return true;
    const auto begin = Threads::clock::now();
    for (auto last_time = begin; !interrupted() && last_time - begin < limits_.spin;) {
      if (limits_.yields) Threads::yield();
      for (int i = limits_.yields ? 31 : 0; i < 32; ++i) {
        Threads::pause();
        if (ready()) return true;
      }
      const auto time = Threads::clock::now();
      // Another thread had the core meanwhile. A second yield would last its whole time slice; a sleeper is woken.
      if (limits_.yields && time - last_time > std::chrono::microseconds(20)) return false;
      last_time = time;
    }
    return false;
  }

  /// When a wait ends without `ready()`.
  enum class gives_up : std::uint8_t {
    never,
    on_failure,   ///< elsewhere, or after a deadline without progress
    on_deadline,  ///< without progress here, or in another worker's wait
    soon,         ///< after `last_chance`
  };

  /// Progress is checked in parts of a deadline, and a part counts at most its length, so that the time for which a
  /// process was stopped (Ctrl-Z) does not count. A wait without progress ends after a deadline and at most one part.
  GPIPE_COLD detail::wait_result sleep(int worker, predicate ready, gives_up when) {
    waiter& self = at(worker);
    self.waits.store(true, std::memory_order_release);
    self.core.store(-1, std::memory_order_relaxed);
    std::unique_lock<mutex> lock(self.mutex);
    const auto over = [&] {
      self.asleep.exchange(1, std::memory_order_acq_rel);
      return ready() || (when == gives_up::on_failure && interrupted()) ||
             (when == gives_up::on_deadline && expired_.load(std::memory_order_acquire));
    };
    if (when == gives_up::never) self.condition.wait(lock, over);
    bool awake = when == gives_up::never;
    const auto part = (std::min)(limits_.deadline / 4, max_part);
    const auto limit = when == gives_up::soon ? last_chance : limits_.deadline;
    auto seen = ticks();
    for (auto waited = part.zero(); waited < limit && !awake;) {
      awake = self.condition.wait_for(lock, part, over);
      const auto current = ticks();
      waited = current == seen ? waited + part : part.zero();
      seen = current;
    }
    self.asleep.exchange(0, std::memory_order_acq_rel);
    lock.unlock();
    spread(worker);
    if (ready()) {
      self.waits.store(false, std::memory_order_release);
      return detail::wait_result::ready;
    }
    return interrupted() ? detail::wait_result::interrupted : detail::wait_result::no_progress;
  }

  // Together less than a second, so that a call that cannot succeed ends within a deadline and a second.
  static constexpr std::chrono::nanoseconds max_part = std::chrono::milliseconds(200);
  static constexpr std::chrono::nanoseconds last_chance = std::chrono::milliseconds(600);

  int workers_;
  wait_limits limits_;
  std::unique_ptr<waiter[]> waiters_;
  alignas(alignment) atomic<bool> interrupted_{false};
  atomic<bool> expired_{false};  // a wait has ended after a deadline
};

/// The signals of threads.
using worker_signals = basic_worker_signals<detail::thread_primitives>;

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
