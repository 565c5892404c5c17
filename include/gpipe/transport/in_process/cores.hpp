#pragma once

#if defined(__linux__)
#include <sched.h>
#endif

namespace gpipe::detail {

/// The cores that the calling thread may run on. On other systems than Linux nothing is known, and nothing moves.
class cores {
 public:
#if defined(__linux__)
  cores() noexcept : known_(sched_getaffinity(0, sizeof all_, &all_) == 0), left_(all_) {}

  /// The one that it runs on now; -1: that is not known.
  static int here() noexcept { return sched_getcpu(); }

  void leave_out(int core) noexcept {
    if (core >= 0 && core < CPU_SETSIZE) CPU_CLR(core, &left_);
  }
  /// Moves the thread to one that is not left out, if there is any. It may run on all of them again.
  void move() const noexcept {
    if (!known_ || CPU_COUNT(&left_) == 0 || sched_setaffinity(0, sizeof left_, &left_) != 0) return;
    sched_setaffinity(0, sizeof all_, &all_);
  }

 private:
  cpu_set_t all_;
  bool known_;
  cpu_set_t left_;
#else
  static int here() noexcept { return -1; }
  void leave_out(int) noexcept {}
  void move() const noexcept {}
#endif
};

}  // namespace gpipe::detail
