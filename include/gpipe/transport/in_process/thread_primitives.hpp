#pragma once

#include <gpipe/transport/contract/wait_limits.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

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

}  // namespace gpipe::detail
