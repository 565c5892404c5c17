#pragma once

#include <algorithm>
#include <cstdint>
#include <ctime>

#include <gpipe/core/clock.hpp>
#include <gpipe/core/config.hpp>

namespace gpipe::detail {

/// The time in which this thread has been on a core, in nanoseconds. If the system does not count it, the clock's time.
inline std::int64_t thread_cpu_ns() noexcept {
#if defined(CLOCK_THREAD_CPUTIME_ID)
  timespec used{};
  if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used) == 0)
    return std::int64_t{used.tv_sec} * 1'000'000'000 + used.tv_nsec;
#endif
  return now_ns();
}

/// How long a worker's thread was not running in an action, though it did not wait: others had the cores, or the action
/// itself slept.
///
///     time not running  =  the clock's time  -  the thread's time on a core  -  waits
///
/// The thread's time costs a system call (0.2 us; the clock costs 0.02), so it is read only at the first end of an
/// action that is `pause_ns` after the last reading: less than 0.3 % of the time. An action that was not running for
/// longer than the pause ends with a reading, so its time is found. Shorter times are found together with the times of
/// other actions since the last reading, and are added to the last action's.
class core_time {
 public:
  static constexpr std::int64_t pause_ns = 100'000;

  explicit core_time(std::int64_t (*read)() noexcept = thread_cpu_ns) : read_(read) {}

  /// A pass begins, in the thread that calls.
  void open(std::int64_t begin) {
    clock_ns_ = begin;
    core_ns_ = read_();
    waited_ns_ = 0;
  }
  /// An action ends. It waited `waited` of its time, asleep or not.
  std::int64_t not_running(std::int64_t begin, std::int64_t end, std::int64_t waited) {
    waited_ns_ += waited;
    return end - clock_ns_ < pause_ns ? 0 : found(begin, end, waited);
  }

 private:
  GPIPE_OUT_OF_LINE std::int64_t found(std::int64_t begin, std::int64_t end, std::int64_t waited) {
    const std::int64_t clock = clock_ns_, core = core_ns_, waits = waited_ns_;
    open(end);
    const std::int64_t busy = (std::max)(std::int64_t{0}, end - begin - waited);
    return std::clamp(end - clock - (core_ns_ - core) - waits, std::int64_t{0}, busy);
  }

  std::int64_t (*read_)() noexcept;
  std::int64_t clock_ns_ = 0, core_ns_ = 0;  ///< at the last reading
  std::int64_t waited_ns_ = 0;               ///< since then
};

}  // namespace gpipe::detail
