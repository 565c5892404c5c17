#pragma once

#include <gpipe/transport/contract/wait_limits.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace gpipe::detail {

/// What the classes of this folder share memory and wait with: the standard library's. Tests give them others, in which
/// every operation is a point where a scheduler of the test may run another thread.
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
