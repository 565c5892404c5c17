#pragma once

#include <gpipe/core/config.hpp>
#include <gpipe/core/error.hpp>
#include <gpipe/transport/contract/wait_limits.hpp>
#include <gpipe/transport/in_process/cores.hpp>

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

namespace gpipe {

/// What all workers of an executor hold on to: each has a seat to sleep in, a failure anywhere
/// unblocks everyone, and silence is noticed.
///
///     waiter     ready?  spin ...   asleep <- 1   ready?   sleep ...
///     notifier   make ready         asleep <- 0   was it 1: ring (12 us), else go on (a few ns)
///
/// Both *exchange* `asleep`, so the later of the two sees the earlier and no ring is lost; what
/// `ready` reads needs acquire and release, no more.
class lifeline {
 public:
  explicit lifeline(int workers) : lifeline(workers, patience::of(workers)) {}

  lifeline(int workers, patience limits)
      : workers_(workers), limits_(limits), seats_(std::make_unique<seat[]>(static_cast<std::size_t>(workers))) {
    assert(workers > 0);
    limits_.spin = (std::min)(limits_.spin, limits_.deadline);
  }

  int workers() const noexcept { return workers_; }
  const patience& limits() const noexcept { return limits_; }

  /// A worker shows that it is alive: after each action, or more often. Nobody else writes to that cache line.
  void progress(int worker) noexcept {
    auto& ticks = at(worker).ticks;
    ticks.store(ticks.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  /// Ends every wait, now and until `reset`. From any thread, any number of times.
  void poison() noexcept {
    poisoned_.store(true, std::memory_order_release);
    for (int w = 0; w < workers_; ++w) wake(w);
  }
  bool poisoned() const noexcept { return poisoned_.load(std::memory_order_acquire); }

  /// Back to health: between steps, while no worker runs.
  void reset() noexcept { poisoned_.store(false, std::memory_order_release); }

  /// Call it after making ready what that worker may wait for.
  void wake(int worker) noexcept {
    seat& s = at(worker);
    if (s.asleep.exchange(0, std::memory_order_acq_rel) == 0) return;
    { const std::lock_guard<std::mutex> past(s.door); }  // between its last look and its sleep it holds the door
    s.bell.notify_one();
  }
  bool asleep(int worker) const noexcept { return at(worker).asleep.load(std::memory_order_acquire) != 0; }

  /// Returns when `ready()`. Throws `detail::poisoned` after a failure elsewhere, and `gpipe::error` with the errand
  /// as its place after a deadline of silence: one worker throws it, all others are poisoned. `awaited()` is the text
  /// of "waits for ..." and is called for that error only.
  template <class Ready, class Awaited>
  void wait(int worker, errand what, Ready ready, Awaited awaited) {
    const auto end = outlast(worker, ready);
    if (end != detail::outcome::ready) fail(end, worker, what, awaited());
  }

  /// The same, leaving the throwing to `fail`. What is ready is ready, poisoned or not.
  template <class Ready>
  detail::outcome outlast(int worker, Ready ready) {
    return spin(ready) ? detail::outcome::ready : sleep(worker, condition(ready), true);
  }

  /// A worker begins, or wakes: where another one runs on its core, it moves to one that none runs on. A system may
  /// place who is woken beside who wakes him, and leave both there for many steps while a core is idle. Nobody is pinned.
  void spread(int worker) noexcept {
    if (limits_.yields) return;
    const int here = detail::cores::here();
    at(worker).core.store(here, std::memory_order_relaxed);
    bool shared = false;
    for (int w = 0; w < workers_; ++w) shared = shared || (w != worker && here >= 0 && core_of(w) == here);
    if (!shared) return;
    detail::cores free;
    for (int w = 0; w < workers_; ++w)
      if (w != worker) free.leave_out(core_of(w));
    free.move();
    at(worker).core.store(detail::cores::here(), std::memory_order_relaxed);
  }

  /// Between steps: waits without a deadline, and poison does not end it.
  template <class Ready>
  void rest(int worker, Ready ready) {
    if (!spin(ready)) sleep(worker, condition(ready), false);
  }

  [[noreturn]] GPIPE_ONCE void fail(detail::outcome end, int worker, errand what, const std::string& awaited) {
    std::string busy;
    for (int w = 0; w < workers_; ++w)
      if (w != worker && !at(w).waits.load(std::memory_order_acquire))
        busy += detail::phrase({busy.empty() ? "worker " : " and ", w});
    const bool first = end != detail::outcome::poisoned && !poisoned_.exchange(true, std::memory_order_acq_rel);
    at(worker).waits.store(false, std::memory_order_release);  // not before: the first counts who waits
    if (!first) throw detail::poisoned{};
    poison();
    const place where{.stage = what.stage, .micro_batch = what.micro_batch, .action = what.action};
    const std::string wrong = detail::phrase(
        {"waits for ", awaited, ", and no worker made progress for ", detail::told(limits_.deadline)});
    if (busy.empty())
      throw error(wrong, "every worker waits: look for a peer that died or programs that do not match", where);
    throw error(wrong, detail::phrase({"see what ", busy, " does, or raise the deadline"}), where);
  }

 private:
  struct alignas(alignment) seat {
    std::atomic<std::uint64_t> ticks{0};
    alignas(alignment) std::atomic<int> asleep{0};
    std::atomic<int> core{-1};  // that it was last seen on; -1: it sleeps
    std::atomic<bool> waits{false};  // awake or asleep: from before it sleeps until it has what it waits for, or throws
    std::mutex door;
    std::condition_variable bell;
  };

  seat& at(int worker) const noexcept {
    assert(worker >= 0 && worker < workers_);
    return seats_[static_cast<std::size_t>(worker)];
  }

  int core_of(int worker) const noexcept { return at(worker).core.load(std::memory_order_relaxed); }

  std::uint64_t ticks() const noexcept {
    std::uint64_t sum = 0;
    for (int w = 0; w < workers_; ++w) sum += at(w).ticks.load(std::memory_order_relaxed);
    return sum;
  }

  /// Any `ready`, by reference and without its type: spinning is compiled for each, sleeping once.
  class condition {
   public:
    template <class Ready>
    explicit condition(Ready& ready) : ready_(&ready), ask_([](void* it) { return (*static_cast<Ready*>(it))(); }) {}
    bool operator()() const { return ask_(ready_); }

   private:
    void* ready_;
    bool (*ask_)(void*);
  };

  template <class Ready>
  bool spin(Ready& ready) const {
    if (ready()) return true;
    const auto begin = std::chrono::steady_clock::now();
    for (auto last = begin; !poisoned() && last - begin < limits_.spin;) {
      if (limits_.yields) std::this_thread::yield();
      for (int i = limits_.yields ? 31 : 0; i < 32; ++i) {
        detail::pause();
        if (ready()) return true;
      }
      const auto now = std::chrono::steady_clock::now();
      // Somebody else had the core meanwhile. Who yields to him again waits for his whole slice, who sleeps is woken.
      if (limits_.yields && now - last > std::chrono::microseconds(20)) return false;
      last = now;
    }
    return false;
  }

  /// Silence is counted in quarters of the deadline, so that a process stopped and continued (Ctrl-Z) does not take
  /// its own absence for silence: it ends after 1 to 1 1/4 deadlines.
  GPIPE_ONCE detail::outcome sleep(int worker, condition ready, bool impatient) {
    seat& s = at(worker);
    s.waits.store(true, std::memory_order_release);
    s.core.store(-1, std::memory_order_relaxed);
    std::unique_lock<std::mutex> inside(s.door);
    const auto over = [&] {
      s.asleep.exchange(1, std::memory_order_acq_rel);
      return ready() || (impatient && poisoned());
    };
    if (!impatient) s.bell.wait(inside, over);
    bool awake = !impatient;
    auto seen = ticks();
    for (int quarters = 0; quarters < 4 && !awake;) {
      awake = s.bell.wait_for(inside, limits_.deadline / 4, over);
      const auto now = ticks();
      quarters = now == seen ? quarters + 1 : 0;
      seen = now;
    }
    s.asleep.exchange(0, std::memory_order_acq_rel);
    inside.unlock();
    spread(worker);
    if (ready()) {
      s.waits.store(false, std::memory_order_release);
      return detail::outcome::ready;
    }
    return poisoned() ? detail::outcome::poisoned : detail::outcome::silent;
  }

  int workers_;
  patience limits_;
  std::unique_ptr<seat[]> seats_;
  alignas(alignment) std::atomic<bool> poisoned_{false};
};

}  // namespace gpipe
