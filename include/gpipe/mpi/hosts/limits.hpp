#pragma once

#include <gpipe/core/error.hpp>
#include <gpipe/device/contract/address_space.hpp>

#include <cstdint>
#include <mutex>
#include <vector>

#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

// MPI needs a part of this process's limits before it begins. With smaller limits it ends the process by a fault or by
// pages of its messages. A limit may differ between hosts, so the error names the host.

namespace gpipe::detail {

/// Open MPI 4.1 opens 17 files in addition to the files of a new process, and one per process on another host.
inline constexpr std::int64_t files_of_mpi = 24;
/// Open MPI 4.1 and its libraries map about 50 MB. Each of its threads has a stack, and for most of them the C library
/// reserves 64 MiB: a process ended by a fault with 180 MB, and never with 225 MB.
inline constexpr std::int64_t bytes_of_mpi = std::int64_t{256} << 20;
/// The thread of call_deadline, and MPI's threads.
inline constexpr int threads_of_mpi = 4;

/// The number of files that the process may still open; counts to at most `enough`.
GPIPE_COLD inline std::int64_t files_left(std::int64_t enough) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return enough;
  std::int64_t left = 0;
  for (rlim_t file = 0; file < limit.rlim_cur && left < enough; ++file)
    if (struct stat status{}; fstat(static_cast<int>(file), &status) != 0) ++left;
  return left;
}

/// Starts this number of concurrent threads, ends them, and returns the number that the system has started. Each has a
/// small stack and allocates nothing, so that it leaves no addresses reserved.
GPIPE_COLD inline int threads_started(int count) {
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return count;
  pthread_attr_setstacksize(&attributes, 128 * 1024);
  const auto wait = [](void* end) -> void* {
    const std::lock_guard lock(*static_cast<std::mutex*>(end));
    return nullptr;
  };
  std::mutex end;
  std::vector<pthread_t> threads;
  end.lock();
  for (pthread_t thread{}; static_cast<int>(threads.size()) < count; threads.push_back(thread))
    if (pthread_create(&thread, &attributes, wait, &end) != 0) break;
  end.unlock();
  for (const pthread_t thread : threads) pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  return static_cast<int>(threads.size());
}

/// Throws if the process's limits are too small for MPI. `rank`: of this process; -1: unknown.
GPIPE_COLD inline void require_limits_of_mpi(int rank) {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  const location process{.rank = rank, .host = host};
  if (const std::int64_t left = files_left(files_of_mpi); left < files_of_mpi)
    throw_error({"the process may open ", left, " more files, and MPI needs ", files_of_mpi},
                {"raise the limit of open files (ulimit -n) on this host"}, process);
  if (const std::int64_t left = address_space_left(); left < bytes_of_mpi)
    throw_error({"the process may map ", left, " more bytes, and MPI needs ", bytes_of_mpi},
                {"raise the limit of addresses (ulimit -v) on this host"}, process);
  if (const int started = threads_started(threads_of_mpi); started < threads_of_mpi)
    throw_error({"the process may start ", started, " more threads, and MPI needs ", threads_of_mpi},
                {"raise the limit of threads (ulimit -u) on this host"}, process);
}

}  // namespace gpipe::detail
