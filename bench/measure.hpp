#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "result.hpp"

namespace bench {

/// Seconds since some fixed moment.
inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// The duration of a call, in seconds.
template <class Call>
double timed(Call&& call) {
  const double begin = now();
  call();
  return now() - begin;
}

inline double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(q * static_cast<double>(values.size() - 1) + 0.5)];
}
inline double median(const std::vector<double>& values) { return quantile(values, 0.5); }

/// Prints the machine's state, which every figure depends on.
inline void print_environment() {
  std::string load = "unknown";
  if (std::ifstream in("/proc/loadavg"); in) in >> load;
#if GPIPE_WITH_LIBXSMM
  const char* products = "libxsmm";
#else
  const char* products = "gpipe's own kernels";
#endif
  std::printf("%s, load %s; %s; matrix products by %s\n\n", machine().c_str(), load.c_str(),
#if defined(__clang__)
              "clang++ " __clang_version__,
#else
              "g++ " __VERSION__,
#endif
              products);
}

}  // namespace bench
