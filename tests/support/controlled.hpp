#pragma once

// Threads under a scheduler of the test. They are fibers of one thread: each operation of an atomic, a mutex or a
// condition is a point where the scheduler may continue another fiber, so an order of operations is a list of choices,
// which is drawn from a seed or enumerated. Time is virtual: it moves when a clock is read, and to the end of the
// shortest timed wait when no fiber can continue.
//
// An order is an interleaving: what weaker memory orders allow beyond that is the thread sanitizer's affair.

#include <ucontext.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <type_traits>
#include <utility>
#include <vector>

namespace controlled {

/// How a run of fibers ended.
enum class ending { done, deadlock, endless };

/// Chooses one of `count` fibers that can continue, by its index; the first is the one that runs, if `running`.
class chooser {
 public:
  virtual ~chooser() = default;
  virtual int choose(int count, bool running) = 0;
};

/// Orders drawn from a seed: the running fiber continues with a probability that is itself drawn for each order.
class random_orders final : public chooser {
 public:
  explicit random_orders(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15ULL + 0x2545F4914F6CDD1DULL) {
    keep_ = (1u << (next() % 5)) - 1;  // 0, 1, 3, 7, 15 of 16
  }
  int choose(int count, bool running) override {
    if (running && next() % 16 < keep_) return 0;
    return static_cast<int>(next() % static_cast<unsigned>(count));
  }

 private:
  std::uint32_t next() {
    state_ ^= state_ << 13, state_ ^= state_ >> 7, state_ ^= state_ << 17;
    return static_cast<std::uint32_t>(state_ >> 32);
  }
  std::uint64_t state_;
  std::uint32_t keep_;
};

/// All orders in which at most `bound` times another fiber continues though the running one could: call `next` after
/// each run, until it returns false.
class bounded_orders final : public chooser {
 public:
  explicit bounded_orders(int bound) : bound_(bound) {}

  int choose(int count, bool running) override {
    if (at_ == choices_.size()) choices_.push_back({0, running && used_ == bound_ ? 1 : count, running});
    const choice& now = choices_[at_++];
    if (now.preempts && now.taken > 0) ++used_;
    return now.taken;
  }
  bool next() {
    while (!choices_.empty() && choices_.back().taken + 1 == choices_.back().count) choices_.pop_back();
    at_ = 0, used_ = 0;
    if (choices_.empty()) return false;
    ++choices_.back().taken;
    return true;
  }

 private:
  struct choice {
    int taken, count;
    bool preempts;
  };
  std::vector<choice> choices_;
  std::size_t at_ = 0;
  int bound_, used_ = 0;
};

/// Runs fibers, one at a time.
class world {
 public:
  static constexpr int max_fibers = 4;
  using nanoseconds = std::chrono::nanoseconds;

  static world& current() { return *current_; }

  /// Runs the bodies to their end in the order that `by` chooses. After a deadlock or without an end the fibers are
  /// abandoned where they are.
  ending run(std::vector<std::function<void()>> bodies, chooser& by) {
    current_ = this;
    bodies_ = std::move(bodies);
    by_ = &by;
    count_ = static_cast<int>(bodies_.size());
    points_ = 0;
    time_ = nanoseconds{0};
    jumps_ = 0;
    ended_ = ending::done;
    for (int f = 0; f < count_; ++f) {
      fiber& it = fibers_[index(f)];
      it.state = life::runs;
      if (!it.stack) it.stack = std::make_unique<std::byte[]>(stack_bytes);
      getcontext(&it.context);
      it.context.uc_stack.ss_sp = it.stack.get();
      it.context.uc_stack.ss_size = stack_bytes;
      it.context.uc_link = nullptr;
      makecontext(&it.context, &world::begin, 0);
    }
    running_ = -1;
    std::array<int, max_fibers> able{};
    const int able_count = find_able(able);
    running_ = able[index(by.choose(able_count, false))];
    swapcontext(&home_, &fibers_[index(running_)].context);
    return ended_;
  }

  int self() const { return running_; }
  nanoseconds now() { return time_ += std::chrono::microseconds(1); }
  /// How often time had to move because no fiber could continue.
  int jumps() const { return jumps_; }

  /// Another fiber may continue here.
  void point() {
    if (++points_ > max_points) return end(ending::endless);
    schedule();
  }
  /// The fiber waits until `wake`, or until a time. Returns whether it was woken.
  bool block(nanoseconds until = nanoseconds::max()) {
    fiber& it = fibers_[index(running_)];
    it.state = life::waits;
    it.until = until;
    it.woken = false;
    schedule();
    return it.woken;
  }
  void wake(int f) {
    fiber& it = fibers_[index(f)];
    if (it.state != life::waits) return;
    it.state = life::runs;
    it.woken = true;
  }

 private:
  enum class life { runs, waits, over };
  struct fiber {
    ucontext_t context{};
    std::unique_ptr<std::byte[]> stack;
    life state = life::over;
    nanoseconds until{};
    bool woken = false;
  };
  static constexpr std::size_t stack_bytes = std::size_t{1} << 16;
  static constexpr int max_points = 20'000;

  static std::size_t index(int i) { return static_cast<std::size_t>(i); }

  static void begin() {
    world& here = current();
    here.bodies_[index(here.running_)]();
    here.fibers_[index(here.running_)].state = life::over;
    here.schedule();
  }

  // The fibers that can continue, the running one first.
  int find_able(std::array<int, max_fibers>& able) {
    int count = 0;
    if (running_ >= 0 && fibers_[index(running_)].state == life::runs) able[index(count++)] = running_;
    for (int f = 0; f < count_; ++f)
      if (f != running_ && fibers_[index(f)].state == life::runs) able[index(count++)] = f;
    return count;
  }
  bool wait_out() {
    int first = -1;
    for (int f = 0; f < count_; ++f)
      if (const fiber& it = fibers_[index(f)]; it.state == life::waits && it.until != nanoseconds::max())
        if (first < 0 || it.until < fibers_[index(first)].until) first = f;
    if (first < 0) return false;
    ++jumps_;
    const nanoseconds until = fibers_[index(first)].until;
    if (until > time_) time_ = until;
    for (int f = 0; f < count_; ++f)  // timed waits that end nearly together may end in any order
      if (fiber& it = fibers_[index(f)];
          it.state == life::waits && it.until != nanoseconds::max() && it.until - until < std::chrono::milliseconds(1))
        it.state = life::runs;
    return true;
  }
  void schedule() {
    std::array<int, max_fibers> able{};
    int count = find_able(able);
    if (count == 0 && wait_out()) count = find_able(able);
    if (count == 0) {
      for (int f = 0; f < count_; ++f)
        if (fibers_[index(f)].state == life::waits) return end(ending::deadlock);
      return end(ending::done);
    }
    const bool running = able[0] == running_;
    const int next = able[index(count == 1 ? 0 : by_->choose(count, running))];
    if (next != running_) go(next);
  }
  void go(int next) {
    ucontext_t& from = fibers_[index(running_)].context;
    running_ = next;
    swapcontext(&from, &fibers_[index(next)].context);
  }
  void end(ending how) {
    ended_ = how;
    swapcontext(&fibers_[index(running_)].context, &home_);
  }

  static inline thread_local world* current_ = nullptr;
  std::array<fiber, max_fibers> fibers_;
  std::vector<std::function<void()>> bodies_;
  ucontext_t home_{};
  chooser* by_ = nullptr;
  int count_ = 0, running_ = -1, points_ = 0, jumps_ = 0;
  nanoseconds time_{};
  ending ended_ = ending::done;
};

/// A fault to plant in the primitives, so that a test can show that it would be found.
enum class plant {
  nothing,
  lost_notification,  ///< `notify_one` does nothing
  missed_sleeper,     ///< a waker does not see that the worker sleeps
  late_store,         ///< a slot's state becomes visible after the wake that follows: store and flag are swapped
  late_flag,          ///< the sleeper's flag becomes visible when it sleeps, after its last look
  open_mutex,         ///< a mutex that does not exclude
};

/// The operations of `detail::thread_primitives`, each of them a point of the world that runs.
template <plant Fault = plant::nothing>
struct primitives {
  static world& here() { return world::current(); }

  /// The store of each fiber that the others do not see yet.
  struct late_stores {
    struct store {
      void* at = nullptr;
      int value = 0;
      void (*apply)(void*, int) = nullptr;
      bool due = false;
    };
    std::array<store, world::max_fibers> of;

    store& mine() { return of[static_cast<std::size_t>(here().self())]; }
    void put(void* at, int value, void (*apply)(void*, int)) {
      flush();
      mine() = {at, value, apply};
    }
    void flush() {
      if (const store now = std::exchange(mine(), {}); now.at != nullptr) now.apply(now.at, now.value);
    }
  };
  static inline thread_local late_stores late;

  /// At the end of a fiber's body.
  static void finish() {
    here().point();
    late.flush();
  }
  static void point() {
    here().point();
    if (late.mine().due) late.flush();
  }

  template <class T>
  class atomic {
   public:
    constexpr atomic(T value) : value_(value) {}

    T load(std::memory_order = std::memory_order_seq_cst) const {
      point();
      return late.mine().at == this ? static_cast<T>(late.mine().value) : value_;
    }
    void store(T value, std::memory_order = std::memory_order_seq_cst) {
      point();
      if constexpr (std::is_enum_v<T>) {
        if (Fault == plant::late_store) return delay(value);
      }
      value_ = value;
    }
    T exchange(T value, std::memory_order = std::memory_order_seq_cst) {
      point();
      if constexpr (std::is_same_v<T, int>) {
        if (Fault == plant::missed_sleeper && value == 0 && value_ == 1) return 0;
        if (Fault == plant::late_flag && value == 1) {
          const T before = value_;
          delay(value);
          return before;
        }
      }
      late.mine().due = late.mine().at != nullptr && Fault == plant::late_store;
      return std::exchange(value_, value);
    }
    T fetch_add(T more, std::memory_order = std::memory_order_seq_cst) {
      point();
      return std::exchange(value_, value_ + more);
    }
    bool compare_exchange_weak(T& expected, T value, std::memory_order = std::memory_order_seq_cst) {
      point();
      if (value_ != expected) {
        expected = value_;
        return false;
      }
      value_ = value;
      return true;
    }

   private:
    void delay(T value) {
      late.put(this, static_cast<int>(value),
               [](void* at, int now) { static_cast<atomic*>(at)->value_ = static_cast<T>(now); });
    }
    T value_;
  };

  class mutex {
   public:
    void lock() {
      point();
      if (Fault == plant::open_mutex) return;
      while (locked_) {
        waiting_ |= 1u << here().self();
        here().block();
      }
      locked_ = true;
    }
    void unlock() {
      release();
      point();
    }

   private:
    friend struct primitives;
    void release() {
      locked_ = false;
      for (int f = 0; f < world::max_fibers; ++f)
        if (waiting_ & (1u << f)) here().wake(f);
      waiting_ = 0;
    }
    bool locked_ = false;
    unsigned waiting_ = 0;
  };

  /// For one sleeper, as in `worker_signals`.
  class condition {
   public:
    void notify_one() {
      point();
      if (Fault != plant::lost_notification && sleeper_ >= 0) here().wake(std::exchange(sleeper_, -1));
    }
    template <class Ready>
    void wait(std::unique_lock<mutex>& lock, Ready ready) {
      while (!ready()) sleep(lock, world::nanoseconds::max());
    }
    template <class Ready>
    bool wait_for(std::unique_lock<mutex>& lock, world::nanoseconds time, Ready ready) {
      const auto until = here().now() + time;
      while (!ready())
        if (!sleep(lock, until)) return ready();
      return true;
    }

   private:
    // Releases the mutex and sleeps in one step.
    bool sleep(std::unique_lock<mutex>& lock, world::nanoseconds until) {
      if (Fault == plant::late_flag) late.flush();
      sleeper_ = here().self();
      lock.mutex()->release();
      const bool woken = here().block(until);
      sleeper_ = -1;
      lock.mutex()->lock();
      return woken;
    }
    int sleeper_ = -1;
  };

  struct clock {
    using duration = world::nanoseconds;
    static duration now() { return here().now(); }
  };
  static void pause() noexcept { point(); }
  static void yield() noexcept { point(); }
};

}  // namespace controlled
