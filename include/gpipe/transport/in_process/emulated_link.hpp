#pragma once

#include <gpipe/core/config.hpp>
#include <gpipe/transport/in_process/worker_signals.hpp>

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

namespace gpipe {

/// One direction of an emulated link: what is sent arrives when the link has carried it, so many bytes a second, one
/// transfer after the other. It stands beside a channel and moves nothing itself:
///
///     sender     write ... depart(k, bytes)  publish(k)
///     receiver                                           consume(k)  arrive(k)  read ...
class slow_link {
 public:
  using clock = std::chrono::steady_clock;

  slow_link(lifeline& line, int receiver, int slots, std::int64_t bytes_per_second)
      : line_(&line),
        receiver_(receiver),
        bytes_per_second_(static_cast<double>(bytes_per_second)),
        arrivals_(static_cast<std::size_t>(slots)) {
    assert(bytes_per_second > 0);
  }

  /// Sender, before `publish`: these bytes leave now, or when those before them have arrived.
  void depart(int slot, std::int64_t bytes) noexcept {
    constexpr double longest = 1e15;  // eleven days, so that sums stay far from 64 bits
    const double ns = (std::min)(longest, 1e9 * static_cast<double>(bytes) / bytes_per_second_);
    free_ = (std::max)(free_, clock::now()) + std::chrono::nanoseconds(static_cast<std::int64_t>(ns));
    arrivals_[static_cast<std::size_t>(slot)] = free_;
  }

  /// Receiver, after `consume`: waits until the slot's bytes are here. That is progress, and poison ends it by throwing
  /// `detail::poisoned`.
  GPIPE_OUT_OF_LINE void arrive(int slot) {
    constexpr auto late = std::chrono::microseconds(80);  // what a sleep may end late
    const auto most = (std::min)(clock::duration(std::chrono::milliseconds(10)),
                                 clock::duration(line_->limits().deadline / 8));
    for (;;) {
      const auto left = arrivals_[static_cast<std::size_t>(slot)] - clock::now();
      if (left <= left.zero()) return;
      if (line_->poisoned()) throw detail::poisoned{};
      line_->progress(receiver_);
      if (left > 2 * late) std::this_thread::sleep_for((std::min)(most, clock::duration(left - late)));
      else std::this_thread::yield();
    }
  }

  /// Forgets what is on its way, while neither worker runs.
  void reset() noexcept { free_ = {}; }

 private:
  lifeline* line_;
  int receiver_;
  double bytes_per_second_;
  clock::time_point free_{};  // the sender's: when the link has carried all that was sent
  std::vector<clock::time_point> arrivals_;  // of each slot: its channel hands them over
};

}  // namespace gpipe
