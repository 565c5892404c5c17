#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <limits>

#ifdef __linux__
#include <sys/resource.h>
#include <unistd.h>
#endif

#include <gpipe/core/config.hpp>

namespace gpipe::detail {

/// The addresses that the process may still map: `ulimit -v`, minus the mapped ones.
GPIPE_COLD inline std::int64_t address_space_left() {
  constexpr std::int64_t unknown = (std::numeric_limits<std::int64_t>::max)();
#ifdef __linux__
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return unknown;
  long long pages = 0;
  if (std::FILE* const mapped = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(mapped, "%lld", &pages) != 1) pages = 0;
    std::fclose(mapped);
  }
  const auto limited = static_cast<std::int64_t>(limit.rlim_cur);
  return (std::max<std::int64_t>)(0, limited - std::int64_t{pages} * sysconf(_SC_PAGESIZE));
#else
  return unknown;
#endif
}

}  // namespace gpipe::detail
