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

namespace gpipe::detail {

/// One direction of an emulated link: a transfer arrives when the link has carried its bytes, at a given number of
/// bytes a second, one transfer after the other. It stands beside a channel and moves nothing itself:
///
///     sender     write ... depart(m, bytes)  publish(m)
///     receiver                                           consume(m)  arrive(m)  read ...
class emulated_link {
 public:
  using clock = std::chrono::steady_clock;

  emulated_link(worker_signals& signals, int receiver, int micro_batches, std::int64_t bytes_per_second)
      : signals_(&signals),
        receiver_(receiver),
        bytes_per_second_(static_cast<double>(bytes_per_second)),
        arrivals_(static_cast<std::size_t>(micro_batches)) {
    assert(bytes_per_second > 0);
  }

  /// Sender, before `publish`: these bytes leave now, or when those before them have arrived.
  void depart(int micro_batch, std::int64_t bytes) noexcept {
    constexpr double longest = 1e15;  // eleven days, so that sums stay far from 64 bits
    const double ns = (std::min)(longest, 1e9 * static_cast<double>(bytes) / bytes_per_second_);
    free_ = (std::max)(free_, clock::now()) + std::chrono::nanoseconds(static_cast<std::int64_t>(ns));
    arrivals_[static_cast<std::size_t>(micro_batch)] = free_;
  }

  /// Receiver, after `consume`: waits until the micro-batch's bytes are here. The wait counts as progress, and a
  /// failure elsewhere ends it by throwing `detail::interrupted`.
  GPIPE_OUT_OF_LINE void arrive(int micro_batch) {
    constexpr auto late = std::chrono::microseconds(80);  // what a sleep may end late
    const auto longest = (std::min<clock::duration>)(std::chrono::milliseconds(10), signals_->limits().deadline / 8);
    for (;;) {
      const auto left = arrivals_[static_cast<std::size_t>(micro_batch)] - clock::now();
      if (left <= left.zero()) return;
      if (signals_->interrupted()) throw detail::interrupted{};
      signals_->progress(receiver_);
      if (left > 2 * late) std::this_thread::sleep_for((std::min<clock::duration>)(longest, left - late));
      else std::this_thread::yield();
    }
  }

  /// Forgets the transfers under way, while neither worker runs.
  void reset() noexcept { free_ = {}; }

 private:
  worker_signals* signals_;
  int receiver_;
  double bytes_per_second_;
  clock::time_point free_{};  // the sender's: when the link has carried all that was sent
  std::vector<clock::time_point> arrivals_;  // [micro-batch]; the channel's slot protects it
};

}  // namespace gpipe::detail
