#pragma once

#include <exception>
#include <functional>
#include <thread>
#include <utility>

#include <gpipe/core/config.hpp>
#include <gpipe/transport/in_process/thread.hpp>

namespace gpipe::detail {

/// Runs one task at a time in a background thread.
class background {
 public:
  background() = default;
  background(const background&) = delete;
  background& operator=(const background&) = delete;
  /// Waits. A failure that `finish` has not thrown is lost.
  ~background() { join(); }

  /// Waits for the previous work, and throws its failure; then starts `work`.
  void start(std::function<void()> work) {
    finish();
    thread_ = start_thread("the saving", [this, todo = std::move(work)] {
      try {
        todo();
      } catch (...) {
        failure_ = std::current_exception();
      }
    });
  }
  /// Waits for the work, and rethrows its exception.
  void finish() {
    join();
    if (failure_ != nullptr) std::rethrow_exception(std::exchange(failure_, nullptr));
  }

 private:
  void join() {
    if (thread_.joinable()) thread_.join();
  }

  std::thread thread_;
  std::exception_ptr failure_;
};

}  // namespace gpipe::detail
