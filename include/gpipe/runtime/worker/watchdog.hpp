#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <gpipe/core/config.hpp>
#include <gpipe/plan/schedule/contract/action.hpp>
#include <gpipe/transport/in_process/thread.hpp>

namespace gpipe::detail {

/// The activity of a worker: it stays the same while a kernel, or other code of the model, runs.
struct activity {
  const void* instruction = nullptr;  ///< null: nothing
  const void* layer = nullptr;
  int micro_batch = -1;
  std::uint64_t ticks = 0;
  bool waits = false;  ///< for another worker

  bool operator==(const activity&) const = default;
};

/// A thread that detects that a worker's kernel does not return. It watches all workers, and is needed for the one
/// whose thread runs the pass, where nothing can throw while the kernel runs.
class watchdog {
 public:
  /// Calls `found(worker)` on its own thread once a worker's kernel has run for `limit` in one pass. After `quiet` it
  /// calls `runs_long(worker)` repeatedly, and then `runs_long(-1)` once.
  GPIPE_COLD watchdog(int workers, std::chrono::nanoseconds limit, std::chrono::nanoseconds quiet,
                      std::function<activity(int)> activity_of, std::function<void(int)> runs_long,
                      std::function<void(int)> found)
      : limit_(limit),
        quiet_(quiet),
        part_(std::clamp<std::chrono::nanoseconds>(quiet / 4, std::chrono::milliseconds(5), std::chrono::seconds(1))),
        activity_of_(std::move(activity_of)),
        runs_long_(std::move(runs_long)),
        found_(std::move(found)),
        seen_(index(workers)),
        thread_(start_thread("the watchdog of kernels", [this] { watch(); })) {}
  ~watchdog() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ending_ = true;
    }
    ends_.notify_one();
    thread_.join();
  }
  watchdog(const watchdog&) = delete;
  watchdog& operator=(const watchdog&) = delete;

  void begin_pass() noexcept { pass_.fetch_add(1, std::memory_order_relaxed); }

 private:
  struct sighting {
    activity seen{};
    std::uint64_t pass = 0;
    std::chrono::nanoseconds unchanged{0};
  };

  // Checks several times per limit, and each check counts no more than its interval: the time during which the process
  // was stopped (Ctrl-Z) is not counted.
  void watch() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (!ends_.wait_for(lock, part_, [this] { return ending_; })) {
      const std::uint64_t pass = pass_.load(std::memory_order_relaxed);
      const bool before = std::exchange(any_runs_long_, false);
      for (std::size_t w = 0; w < seen_.size(); ++w) {
        sighting& last = seen_[w];
        const activity current = activity_of_(static_cast<int>(w));
        if (current.instruction != nullptr && !current.waits && current == last.seen && pass == last.pass)
          last.unchanged += part_;
        else last = {current, pass};
        if (last.unchanged >= limit_) return found_(static_cast<int>(w));  // and the thread ends
        if (last.unchanged < quiet_) continue;
        any_runs_long_ = true;
        runs_long_(static_cast<int>(w));
      }
      if (before && !any_runs_long_) runs_long_(-1);
    }
  }

  std::chrono::nanoseconds limit_, quiet_, part_;
  std::function<activity(int)> activity_of_;
  std::function<void(int)> runs_long_, found_;
  std::vector<sighting> seen_;  // [worker]
  std::atomic<std::uint64_t> pass_{0};
  bool any_runs_long_ = false;
  std::mutex mutex_;
  std::condition_variable ends_;
  bool ending_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace gpipe::detail
