#pragma once

#include <gpipe/tools/testing/gemm_rate.hpp>

#include <barrier>
#include <cstddef>
#include <thread>
#include <vector>

#include <pthread.h>
#include <sched.h>

namespace bench {

/// The rate of the machine's cores in matrix products, one pinned thread each: with the trainings' kernels, at the
/// fastest of a few shapes, with all operands in the nearest caches.
class gemm_peak {
 public:
  using shape = gpipe::host::product_shape;

  explicit gemm_peak(int threads) : threads_(threads) {
    double highest = 0;
    for (const shape& candidate : gpipe::host::fast_products) {
      const double rate = at(candidate, 0.1);
      if (rate > highest) highest = rate, best_ = candidate;
    }
  }

  const shape& best() const { return best_; }
  /// In GFLOP/s, of all threads together; runs for `seconds`.
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
        rates[static_cast<std::size_t>(t)] = 1e-9 * gpipe::host::gemm_rate(seconds, of.rows, of.columns, of.inner);
      });
    for (std::thread& t : threads) t.join();
    double sum = 0;
    for (const double rate : rates) sum += rate;
    return sum;
  }

 private:
  /// Pins the thread to the n-th core that this process may use.
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
