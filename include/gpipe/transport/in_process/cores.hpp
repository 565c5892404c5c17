#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <thread>

#if defined(__linux__)
#include <sched.h>
#endif

namespace gpipe::detail {

/// The cores that the calling thread may run on. On systems other than Linux they are unknown and no thread moves.
class cores {
 public:
  static unsigned of_machine() noexcept { return std::thread::hardware_concurrency(); }
#if defined(__linux__)
  cores() noexcept : known_(sched_getaffinity(0, sizeof all_, &all_) == 0), left_(all_) {}

  /// How many the calling thread may run on: mpirun, Slurm or taskset may have bound the process to a few of the
  /// machine's. Zero: unknown.
  static unsigned allowed() noexcept {
    cpu_set_t all;
    return sched_getaffinity(0, sizeof all, &all) == 0 ? static_cast<unsigned>(CPU_COUNT(&all)) : of_machine();
  }

  /// The same as bits; none: unknown.
  using bits = std::array<std::uint64_t, 16>;
  static bits allowed_bits() noexcept {
    bits found{};
    if (cpu_set_t all; sched_getaffinity(0, sizeof all, &all) == 0) {
      static_assert(sizeof found == sizeof all);
      std::memcpy(found.data(), &all, sizeof all);
    }
    return found;
  }
  /// The calling thread may run on these cores alone. False: the system refuses.
  static bool bind(const bits& to) noexcept {
    cpu_set_t wanted;
    std::memcpy(&wanted, to.data(), sizeof wanted);
    return sched_setaffinity(0, sizeof wanted, &wanted) == 0;
  }
  /// The calling thread may run on the cores again that it could at the construction.
  void restore() const noexcept {
    if (known_) sched_setaffinity(0, sizeof all_, &all_);
  }

  /// The core that the thread runs on now; -1: unknown.
  static int here() noexcept { return sched_getcpu(); }

  void exclude(int core) noexcept {
    if (core >= 0 && core < CPU_SETSIZE) CPU_CLR(static_cast<std::size_t>(core), &left_);
  }
  /// Moves the thread to a core that is not excluded, if there is one. Then the thread may run on all cores again.
  void move() const noexcept {
    if (!known_ || CPU_COUNT(&left_) == 0 || sched_setaffinity(0, sizeof left_, &left_) != 0) return;
    restore();
  }

 private:
  cpu_set_t all_;
  bool known_;
  cpu_set_t left_;
#else
  static unsigned allowed() noexcept { return of_machine(); }
  using bits = std::array<std::uint64_t, 16>;
  static bits allowed_bits() noexcept { return {}; }
  static bool bind(const bits&) noexcept { return false; }
  void restore() const noexcept {}
  static int here() noexcept { return -1; }
  void exclude(int) noexcept {}
  void move() const noexcept {}
#endif
};

}  // namespace gpipe::detail
