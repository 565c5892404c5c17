#pragma once

#include "measure.hpp"

#include <gpipe/core/numbers/random.hpp>
#include <gpipe/layer/contract/description.hpp>

#include <sys/prctl.h>
#include <time.h>

namespace bench {

/// Waits as long as a device would be busy, and leaves the core free. A sleeping thread wakes some 50 us late, so it is
/// woken early and spins for the rest.
inline void busy_until(double end) {
  thread_local const int precise = prctl(PR_SET_TIMERSLACK, 1UL);
  static_cast<void>(precise);
  constexpr double spun = 80e-6;
  if (const double left = end - now() - spun; left > 0) {
    const auto whole = static_cast<time_t>(left);
    const timespec time{whole, static_cast<long>(1e9 * (left - static_cast<double>(whole)))};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &time, nullptr);
  }
  while (now() < end) {
  }
}
inline void busy_for(double seconds) { busy_until(now() + seconds); }

/// A layer that takes a given number of microseconds per sample forward, and for either part backward. It has a
/// parameter, and so a parameter part.
template <int Forward, int Input, int Parameters>
struct device_work {
  template <class In>
  struct on {
    using output = In;
    static constexpr gpipe::parameter parameters[] = {{"none", {1}, gpipe::initializer::zeros()}};
    static constexpr gpipe::work cost{.forward = Forward * 60'000LL,
                                      .backward_input = Input * 60'000LL,
                                      .backward_parameters = Parameters * 60'000LL};
    static void forward(const auto&, const auto& a) { busy_for(1e-6 * Forward * a.samples()); }
    static void backward_input(const auto&, const auto& a) { busy_for(1e-6 * Input * a.samples()); }
    static void backward_parameters(const auto&, const auto& a) { busy_for(1e-6 * Parameters * a.samples()); }
  };
};

}  // namespace bench
