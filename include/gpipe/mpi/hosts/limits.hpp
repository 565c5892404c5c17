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

// MPI needs a part of this process's limits before it begins. Under smaller ones it ends the process by a fault or by
// pages of its own messages. A limit may differ between hosts, so the error names the host.

namespace gpipe::detail {

/// Open MPI 4.1 opens 17 files beside those of a new process, and one more for each process on another host.
inline constexpr std::int64_t files_of_mpi = 24;
/// Open MPI 4.1 maps some 50 MB, with its libraries. Each of its threads takes a stack, and for most of them the C
/// library reserves 64 MiB: a process ended by a fault with 180 MB, and never with 225 MB.
inline constexpr std::int64_t bytes_of_mpi = std::int64_t{256} << 20;
/// This process's own for the deadline of calls, and MPI's.
inline constexpr int threads_of_mpi = 4;

/// How many more files the process may open; no more than `enough` are counted.
GPIPE_COLD inline std::int64_t files_left(std::int64_t enough) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return enough;
  std::int64_t left = 0;
  for (rlim_t file = 0; file < limit.rlim_cur && left < enough; ++file)
    if (struct stat of{}; fstat(static_cast<int>(file), &of) != 0) ++left;
  return left;
}

/// Starts this number of threads beside one another, ends them, and returns how many the system has started. Each has a
/// small stack and allocates nothing, so that it leaves no addresses reserved.
GPIPE_COLD inline int threads_started(int count) {
  pthread_attr_t how;
  if (pthread_attr_init(&how) != 0) return count;
  pthread_attr_setstacksize(&how, 128 * 1024);
  const auto wait = [](void* end) -> void* {
    const std::lock_guard until(*static_cast<std::mutex*>(end));
    return nullptr;
  };
  std::mutex end;
  std::vector<pthread_t> threads;
  end.lock();
  for (pthread_t one{}; static_cast<int>(threads.size()) < count; threads.push_back(one))
    if (pthread_create(&one, &how, wait, &end) != 0) break;
  end.unlock();
  for (const pthread_t one : threads) pthread_join(one, nullptr);
  pthread_attr_destroy(&how);
  return static_cast<int>(threads.size());
}

/// Throws if the process's limits are too small for MPI. `rank`: of this process; -1: unknown.
GPIPE_COLD inline void require_limits_of_mpi(int rank) {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  const location here{.rank = rank, .host = host};
  if (const std::int64_t left = files_left(files_of_mpi); left < files_of_mpi)
    throw_error({"the process may open ", left, " more files, and MPI needs ", files_of_mpi},
                {"raise the limit of open files (ulimit -n) on this host"}, here);
  if (const std::int64_t left = address_space_left(); left < bytes_of_mpi)
    throw_error({"the process may map ", left, " more bytes, and MPI needs ", bytes_of_mpi},
                {"raise the limit of addresses (ulimit -v) on this host"}, here);
  if (const int started = threads_started(threads_of_mpi); started < threads_of_mpi)
    throw_error({"the process may start ", started, " more threads, and MPI needs ", threads_of_mpi},
                {"raise the limit of threads (ulimit -u) on this host"}, here);
}

}  // namespace gpipe::detail
