#pragma once

#include <gpipe/transport/contract/build_text.hpp>
#include <gpipe/transport/contract/wait_limits.hpp>
#include <gpipe/transport/mpi/check.hpp>
#include <gpipe/transport/mpi/shared_status.hpp>
#include <gpipe/transport/mpi/signal.hpp>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

namespace gpipe::mpi {

/// A process says this of itself when it joins. All versions of the library send as many bytes.
struct arrival {
  fixed_text<64> host;
  fixed_text<192> build;
};

/// The largest tag: the messages may go over MPI_COMM_WORLD, for there is no other communicator yet.
GPIPE_COLD inline int arrival_tag() {
  void* largest = nullptr;
  int found = 0;
  check(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &largest, &found), "MPI_Comm_get_attr");
  return found ? *static_cast<int*>(largest) : 32767;
}

/// Every process sends its own element to every other. Throws after `deadline`, and after SIGTERM, by which mpirun ends
/// the others when one has ended; the error names the ranks that have not come.
GPIPE_COLD inline void exchange_arrivals(MPI_Comm over, std::vector<arrival>& all, int rank,
                                         std::chrono::nanoseconds deadline) {
  using clock = std::chrono::steady_clock;
  const auto index = [](int r) { return static_cast<std::size_t>(r); };
  const int ranks = static_cast<int>(all.size()), tag = arrival_tag();
  std::vector<MPI_Request> requests(2 * all.size(), MPI_REQUEST_NULL);  // receives, then sends
  constexpr int bytes = sizeof(arrival);
  for (int r = 0; r < ranks; ++r)
    if (r != rank) check(MPI_Irecv(&all[index(r)], bytes, MPI_BYTE, r, tag, over, &requests[index(r)]), "MPI_Irecv");
  for (int r = 0; r < ranks; ++r)
    if (r != rank)
      check(MPI_Isend(&all[index(rank)], bytes, MPI_BYTE, r, tag, over, &requests[index(ranks + r)]), "MPI_Isend");
  const auto begin = clock::now();
  for (int here = 0;;) {
    check(MPI_Testall(2 * ranks, requests.data(), &here, MPI_STATUSES_IGNORE), "MPI_Testall");
    if (here) return;
    const auto waited = clock::now() - begin;
    if (waited >= deadline || terminated()) break;
    if (waited > std::chrono::milliseconds(1)) std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  std::string missing, hosts;
  int count = 0;
  for (int r = 0; r < ranks; ++r) {
    int here = 0;
    MPI_Test(&requests[index(r)], &here, MPI_STATUS_IGNORE);
    const std::string its = all[index(r)].host.get();
    if (r == rank || here) {
      if (hosts.size() < 200 && (", " + hosts + ",").find(", " + its + ",") == std::string::npos)
        hosts += (hosts.empty() ? "" : ", ") + its;
    } else if (++count <= 8) {
      missing += (count > 1 ? ", " : "") + std::to_string(r) + (its.empty() ? "" : " on host " + its);
    }
  }
  if (count > 8) missing += gpipe::detail::concat({" and ", count - 8, " more"});
  const std::string how_long =
      terminated() ? ", and SIGTERM has come" : " for " + gpipe::detail::duration_text(deadline);
  gpipe::detail::throw_error(
      {count == 1 ? "rank " : "ranks ", missing, count == 1 ? " has" : " have", " not joined the job", how_long},
      {"see what keeps ", count == 1 ? "it" : "them",
       ", and that every process makes an mpi::job, or raise the deadline; the other ranks are on ", hosts},
      {.rank = rank});
}

/// Returns the host of each rank when all processes have called it, or no hosts if there is only one. Throws after
/// `deadline` if one does not come, and if the processes run different builds.
///
/// A collective call does not say which process it waits for, so each sends a message to every other, twice: a process
/// that cannot hear one of the others does not come to the second time.
GPIPE_COLD inline std::vector<std::string> await_arrival_of_all(MPI_Comm processes, std::chrono::nanoseconds deadline) {
  int rank = 0, ranks = 1;
  MPI_Comm_rank(processes, &rank);
  MPI_Comm_size(processes, &ranks);
  std::vector<arrival> all(static_cast<std::size_t>(ranks));
  arrival& mine = all[static_cast<std::size_t>(rank)];
  char host[MPI_MAX_PROCESSOR_NAME] = "";
  int length = 0;
  check(MPI_Get_processor_name(host, &length), "MPI_Get_processor_name");
  mine.host.set(host);
  mine.build.set(gpipe::detail::build_text());
  for (int i = 0; i < 2; ++i) exchange_arrivals(processes, all, rank, deadline);
  std::vector<std::string> names;
  for (const arrival& of : all) names.push_back(of.host.get());
  if (std::all_of(names.begin(), names.end(), [&](const std::string& name) { return name == names[0]; })) names.clear();
  for (int r = 1; r < ranks; ++r)
    if (const std::string first = all[0].build.get(), other = all[static_cast<std::size_t>(r)].build.get();
        first != other)
      gpipe::detail::throw_error({"ranks 0 and ", r, " run different builds: ", first, " and ", other},
                                 {"copy one program to all hosts"},
                                 {.rank = r, .host = names.empty() ? "" : names[static_cast<std::size_t>(r)]});
  return names;
}

}  // namespace gpipe::mpi
