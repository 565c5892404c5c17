#pragma once

#include <gpipe/device/host/gemm_rate.hpp>

#include <barrier>
#include <cstddef>
#include <thread>
#include <vector>

#include <pthread.h>
#include <sched.h>

namespace bench {

/// What the machine's cores reach at matrix products, one pinned thread each: by the kernels that trainings use, at the
/// shape of a few at which they are fastest, with everything in the caches nearest to the core.
class product_peak {
 public:
  using shape = gpipe::host::product_shape;

  explicit product_peak(int threads) : threads_(threads) {
    double most = 0;
    for (const shape& candidate : gpipe::host::fast_products) {
      const double rate = at(candidate, 0.1);
      if (rate > most) most = rate, best_ = candidate;
    }
  }

  const shape& best() const { return best_; }
  /// In GFLOP/s, of all threads together; it takes so many seconds.
  double operator()(double seconds = 0.2) const { return at(best_, seconds); }
  /// The same at another shape.
  double at(const shape& of, double seconds = 0.2) const {
    std::vector<double> rates(static_cast<std::size_t>(threads_));
    std::barrier start(threads_);
    std::vector<std::thread> threads;
    for (int t = 0; t < threads_; ++t)
      threads.emplace_back([&, t] {
        pin(t);
        start.arrive_and_wait();
        rates[static_cast<std::size_t>(t)] = 1e-9 * gpipe::host::product_rate(seconds, of.rows, of.columns, of.inner);
      });
    for (std::thread& t : threads) t.join();
    double sum = 0;
    for (const double rate : rates) sum += rate;
    return sum;
  }

 private:
  /// To the n-th of the cores that this process may use.
  static void pin(int n) {
    cpu_set_t allowed, one;
    CPU_ZERO(&one);
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
    for (int core = 0; core < CPU_SETSIZE; ++core)
      if (CPU_ISSET(core, &allowed) && n-- == 0) {
        CPU_SET(core, &one);
        pthread_setaffinity_np(pthread_self(), sizeof one, &one);
      }
  }

  int threads_;
  shape best_{};
};

}  // namespace bench
