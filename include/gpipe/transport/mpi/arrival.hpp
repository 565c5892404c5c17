#pragma once

#include <gpipe/transport/contract/wait_limits.hpp>
#include <gpipe/transport/mpi/check.hpp>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

namespace gpipe::mpi {

/// Returns when all processes have called it; throws after `deadline`, and the error names the ranks that have not.
///
/// A collective call does not say which process it waits for, so each sends an empty message to every other. The
/// messages go over MPI_COMM_WORLD, by its largest tag, for there is no other communicator yet.
GPIPE_COLD inline void await_arrival_of_all(std::chrono::nanoseconds deadline) {
  using clock = std::chrono::steady_clock;
  int rank = 0, ranks = 1, found = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  void* largest = nullptr;
  check(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &largest, &found), "MPI_Comm_get_attr");
  const int tag = found ? *static_cast<int*>(largest) : 32767;
  std::vector<MPI_Request> requests(2 * static_cast<std::size_t>(ranks), MPI_REQUEST_NULL);  // receives, then sends
  for (int r = 0; r < ranks; ++r)
    if (r != rank)
      check(MPI_Irecv(nullptr, 0, MPI_BYTE, r, tag, MPI_COMM_WORLD, &requests[static_cast<std::size_t>(r)]),
            "MPI_Irecv");
  for (int r = 0; r < ranks; ++r)
    if (r != rank)
      check(MPI_Isend(nullptr, 0, MPI_BYTE, r, tag, MPI_COMM_WORLD, &requests[static_cast<std::size_t>(ranks + r)]),
            "MPI_Isend");
  const auto begin = clock::now();
  for (int all = 0;;) {
    check(MPI_Testall(2 * ranks, requests.data(), &all, MPI_STATUSES_IGNORE), "MPI_Testall");
    if (all) return;
    const auto waited = clock::now() - begin;
    if (waited >= deadline) break;
    if (waited > std::chrono::milliseconds(1)) std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  std::string missing;
  int count = 0;
  for (int r = 0; r < ranks; ++r) {
    int here = 0;
    MPI_Test(&requests[static_cast<std::size_t>(r)], &here, MPI_STATUS_IGNORE);
    if (r == rank || here) continue;
    if (++count <= 8) missing += (count > 1 ? ", " : "") + std::to_string(r);
  }
  if (count > 8) missing += gpipe::detail::concat({" and ", count - 8, " more"});
  gpipe::detail::throw_error({count == 1 ? "rank " : "ranks ", missing, count == 1 ? " has" : " have",
                              " not joined the job for ", gpipe::detail::duration_text(deadline)},
                             {"see what keeps ", count == 1 ? "it" : "them",
                              ", and that every process makes an mpi::job, or raise the deadline"},
                             {.rank = rank});
}

}  // namespace gpipe::mpi
