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

// change: core binding
/// The cores that the calling thread may run on. On systems other than Linux they are unknown and no thread moves.
class cores {
 public:
  static unsigned of_machine() noexcept { return std::thread::hardware_concurrency(); }
#if defined(__linux__)
  cores() noexcept : known_(sched_getaffinity(0, sizeof original_, &original_) == 0), left_(original_) {}

  /// The number of cores that the calling thread may run on: mpirun, Slurm or taskset may have bound the process to
  /// some of the machine's cores. Zero: unknown.
  static unsigned allowed() noexcept {
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? static_cast<unsigned>(CPU_COUNT(&set)) : of_machine();
  }

  /// The same as bits; none: unknown.
  using bits = std::array<std::uint64_t, 16>;
  static bits allowed_bits() noexcept {
    bits found{};
    if (cpu_set_t set; sched_getaffinity(0, sizeof set, &set) == 0) {
      static_assert(sizeof found == sizeof set);
      std::memcpy(found.data(), &set, sizeof set);
    }
    return found;
  }
  /// Binds the calling thread to these cores. False: the system refuses.
  static bool bind(const bits& set) noexcept {
    cpu_set_t wanted;
    std::memcpy(&wanted, set.data(), sizeof wanted);
    return sched_setaffinity(0, sizeof wanted, &wanted) == 0;
  }
  /// Restores the cores that the calling thread could run on at construction.
  void restore() const noexcept {
    if (known_) sched_setaffinity(0, sizeof original_, &original_);
  }

  /// The core that the thread runs on now; -1: unknown.
  static int here() noexcept { return sched_getcpu(); }

  void exclude(int core) noexcept {
    if (core >= 0 && core < CPU_SETSIZE) CPU_CLR(static_cast<std::size_t>(core), &left_);
  }
  /// Moves the thread to a core that is not excluded, if there is one. Afterwards the thread may run on all cores
  /// again.
  void move() const noexcept {
    if (!known_ || CPU_COUNT(&left_) == 0 || sched_setaffinity(0, sizeof left_, &left_) != 0) return;
    restore();
  }

 private:
  cpu_set_t original_;
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
