// Channel, barrier and signals of one process under a scheduler: 10^7 orders of their operations, or as many as the
// first argument says. See README.md.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "../result.hpp"
#include "support/orders.hpp"

int main(int count, char** arguments) {
  const long wanted = count > 1 ? std::atol(arguments[1]) : 10'000'000;
  const unsigned cores = (std::max)(1u, std::thread::hardware_concurrency());
  const auto begin = std::chrono::steady_clock::now();
  std::vector<orders::tally> found(cores + 1);
  std::vector<std::thread> threads;
  for (unsigned c = 0; c < cores; ++c)  // each thread has fibers of its own
    threads.emplace_back([&, c] { found[c] = orders::run_random(wanted / cores, 1 + (std::uint64_t{c} << 40)); });
  for (std::thread& thread : threads) thread.join();
  found[cores] = orders::run_bounded(3, wanted / 40);
  long all = 0, faults = 0;
  for (const orders::tally& one : found) {
    all += one.orders;
    if (one.fault.empty()) continue;
    ++faults;
    std::printf("%s\n", one.fault.c_str());
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::printf("%ld orders in %.0f s, %.1f us each\n", all, seconds, 1e6 * seconds / static_cast<double>(all));
  bench::result("orders.faults", static_cast<double>(faults), "faults");
  return faults == 0 ? 0 : 1;
}
