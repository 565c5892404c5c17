#pragma once

#include <gpipe/core/config.hpp>
#include <gpipe/runtime/step/training_options.hpp>
#include <gpipe/transport/in_process/channel.hpp>
#include <gpipe/transport/in_process/worker_signals.hpp>

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace gpipe::detail {

// change: link emulation
/// One direction of an emulated link: a transfer arrives when the link has carried its bytes, at a given number of
/// bytes per second, one transfer at a time.
class emulated_link final : public link_delay {
 public:
  using clock = std::chrono::steady_clock;

  emulated_link(worker_signals& wake_signals, int receiver, int micro_batches, std::int64_t bytes_per_second)
      : signals_(&wake_signals),
        receiver_(receiver),
        bytes_per_second_(static_cast<double>(bytes_per_second)),
        arrivals_(static_cast<std::size_t>(micro_batches)) {
    assert(bytes_per_second > 0);
  }

  /// The bytes leave now, or when earlier bytes have arrived.
  void depart(int micro_batch, std::int64_t bytes) noexcept override {
    constexpr double longest = 1e15;  // eleven days, so that sums stay far from 64 bits
    const double ns = (std::min)(longest, 1e9 * static_cast<double>(bytes) / bytes_per_second_);
    free_ = (std::max)(free_, clock::now()) + std::chrono::nanoseconds(static_cast<std::int64_t>(ns));
    arrivals_[static_cast<std::size_t>(micro_batch)] = free_;
  }

  GPIPE_OUT_OF_LINE void arrive(int micro_batch) override {
    constexpr auto late = std::chrono::microseconds(80);  // how late a sleep may end
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

  void reset() noexcept override { free_ = {}; }

 private:
  worker_signals* signals_;
  int receiver_;
  double bytes_per_second_;
  clock::time_point free_{};                 // the sender's: when the link has carried all that was sent
  std::vector<clock::time_point> arrivals_;  // [micro-batch]; the channel's layer protects it
};

template <class>
struct link_emulator {
  static constexpr link_emulation emulation{[](worker_signals& wake_signals, int receiver, int micro_batches,
                                               std::int64_t bytes_per_second) -> std::unique_ptr<link_delay> {
    return std::make_unique<emulated_link>(wake_signals, receiver, micro_batches, bytes_per_second);
  }};
};

}  // namespace gpipe::detail
