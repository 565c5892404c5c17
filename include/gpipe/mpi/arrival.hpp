#pragma once

#include <gpipe/mpi/call_deadline.hpp>
#include <gpipe/mpi/shared_status.hpp>
#include <gpipe/transport/contract/build_text.hpp>
#include <gpipe/transport/contract/wait_limits.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace gpipe::mpi {

/// A process sends this when it joins. It has the same size in all versions of the library.
struct arrival {
  fixed_text<64> host;
  fixed_text<192> build;
};

/// The largest tag: the messages may use MPI_COMM_WORLD, because there is no other communicator yet.
GPIPE_COLD inline int arrival_tag() {
  void* largest = nullptr;
  int found = 0;
  check(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &largest, &found), "MPI_Comm_get_attr");
  return found ? *static_cast<int*>(largest) : 32767;
}

/// Throws an error that names the missing ranks: the message of rank r, `requests[r]`, has not arrived.
[[noreturn]] GPIPE_COLD inline void throw_not_joined(const std::vector<arrival>& arrivals,
                                                     std::vector<MPI_Request>& requests, int rank,
                                                     std::chrono::nanoseconds deadline) {
  std::string missing, hosts;
  int count = 0;
  for (std::size_t r = 0; r < arrivals.size(); ++r) {
    int arrived = 0;
    MPI_Test(&requests[r], &arrived, MPI_STATUS_IGNORE);
    const std::string host = arrivals[r].host.get();
    if (static_cast<int>(r) == rank || arrived) {
      if (hosts.size() < 200 && (", " + hosts + ",").find(", " + host + ",") == std::string::npos)
        hosts += (hosts.empty() ? "" : ", ") + host;
    } else if (++count <= 8) {
      missing += (count > 1 ? ", " : "") + std::to_string(r) + (host.empty() ? "" : " on host " + host);
    }
  }
  if (count > 8) missing += gpipe::detail::concat({" and ", count - 8, " more"});
  const std::string how_long =
      terminated() ? ", and SIGTERM has come" : " for " + gpipe::detail::duration_text(deadline);
  if (count == 0)
    gpipe::detail::throw_error(
        {"all ", arrivals.size(), " ranks have begun to join the job, and have not joined it", how_long},
        {"see what keeps them, or raise the deadline; they are on ", hosts}, {.rank = rank});
  gpipe::detail::throw_error(
      {count == 1 ? "rank " : "ranks ", missing, count == 1 ? " has" : " have", " not joined the job", how_long},
      {"see what keeps ", count == 1 ? "it" : "them",
       ", and that every process makes an mpi::job, or raise the deadline; the other ranks are on ", hosts},
      {.rank = rank});
}

/// Returns when all requests are complete. Throws after `deadline`, and after SIGTERM, which mpirun sends to the other
/// processes when one has ended.
GPIPE_COLD inline void await_arrivals(const std::vector<arrival>& arrivals, std::vector<MPI_Request>& requests,
                                      int rank, std::chrono::nanoseconds deadline) {
  using clock = std::chrono::steady_clock;
  const auto begin = clock::now();
  for (int arrived = 0;;) {
    check(MPI_Testall(static_cast<int>(requests.size()), requests.data(), &arrived, MPI_STATUSES_IGNORE),
          "MPI_Testall");
    if (arrived) return;
    const auto waited = clock::now() - begin;
    if (waited >= deadline || terminated()) throw_not_joined(arrivals, requests, rank, deadline);
    if (waited > std::chrono::milliseconds(1)) std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

/// Every process sends its element to every other process.
GPIPE_COLD inline void exchange_arrivals(MPI_Comm over, std::vector<arrival>& arrivals, int rank,
                                         std::chrono::nanoseconds deadline) {
  const auto index = [](int r) { return static_cast<std::size_t>(r); };
  const int ranks = static_cast<int>(arrivals.size()), tag = arrival_tag();
  std::vector<MPI_Request> requests(2 * arrivals.size(), MPI_REQUEST_NULL);  // receives, then sends
  constexpr int bytes = sizeof(arrival);
  for (int r = 0; r < ranks; ++r)
    if (r != rank)
      check(MPI_Irecv(&arrivals[index(r)], bytes, MPI_BYTE, r, tag, over, &requests[index(r)]), "MPI_Irecv");
  for (int r = 0; r < ranks; ++r)
    if (r != rank)
      check(MPI_Isend(&arrivals[index(rank)], bytes, MPI_BYTE, r, tag, over, &requests[index(ranks + r)]), "MPI_Isend");
  await_arrivals(arrivals, requests, rank, deadline);
}

/// Returns one element per process of a communicator; the element of this process is set.
GPIPE_COLD inline std::vector<arrival> arrivals_of(MPI_Comm processes, int& rank) {
  int ranks = 1;
  MPI_Comm_rank(processes, &rank);
  MPI_Comm_size(processes, &ranks);
  std::vector<arrival> arrivals(static_cast<std::size_t>(ranks));
  arrival& own_arrival = arrivals[static_cast<std::size_t>(rank)];
  char host[MPI_MAX_PROCESSOR_NAME] = "";
  int length = 0;
  check(MPI_Get_processor_name(host, &length), "MPI_Get_processor_name");
  own_arrival.host.set(host);
  own_arrival.build.set(gpipe::detail::build_text());
  return arrivals;
}

/// Returns a copy of a program's communicator when all of its processes have called this function; throws like
/// await_arrivals.
///
/// A receive of the program could take a message between two processes. Copying is a collective call, which no receive
/// takes, but MPI does not report for which process it waits. So each process also scatters its arrival to all others:
///
///     rank 0   copy   scatter   from 1    from 2
///     rank 1   copy   from 0    scatter   from 2      rank 2 is missing: only the parts from 2 stay incomplete
GPIPE_COLD inline MPI_Comm copy_when_joined(MPI_Comm processes, std::chrono::nanoseconds deadline) {
  struct pending {
    std::vector<arrival> arrivals, copies;  // MPI may read no element twice
    std::vector<int> counts, offsets;
    std::vector<MPI_Request> requests;
    MPI_Comm copy = MPI_COMM_NULL;
  };
  int rank = 0;
  auto made = std::make_unique<pending>();
  made->arrivals = arrivals_of(processes, rank);
  const std::size_t ranks = made->arrivals.size();
  constexpr int bytes = sizeof(arrival);
  made->copies.assign(ranks, made->arrivals[static_cast<std::size_t>(rank)]);
  made->counts.assign(ranks, bytes);
  for (std::size_t r = 0; r < ranks; ++r) made->offsets.push_back(static_cast<int>(r) * bytes);
  made->requests.assign(ranks + 1, MPI_REQUEST_NULL);
  check(MPI_Comm_idup(processes, &made->copy, &made->requests[ranks]), "MPI_Comm_idup");
  for (std::size_t r = 0; r < ranks; ++r)
    check(MPI_Iscatterv(made->copies.data(), made->counts.data(), made->offsets.data(), MPI_BYTE,
                        static_cast<int>(r) == rank ? MPI_IN_PLACE : &made->arrivals[r], bytes, MPI_BYTE,
                        static_cast<int>(r), processes, &made->requests[r]),
          "MPI_Iscatterv");
  try {
    await_arrivals(made->arrivals, made->requests, rank, deadline);
  } catch (...) {
    static_cast<void>(made.release());  // the program continues, and MPI may still write there
    throw;
  }
  MPI_Comm_set_errhandler(made->copy, MPI_ERRORS_RETURN);
  return made->copy;
}

/// Returns the host of each rank when all processes have called this function, or no hosts if there is only one. Throws
/// after `deadline` if a process is missing, and if the processes run different builds.
///
/// MPI does not report for which process a collective call waits, so each process sends a message to every other,
/// twice: a process that does not receive the message of another one does not begin the second exchange.
GPIPE_COLD inline std::vector<std::string> await_arrival_of_all(MPI_Comm processes, std::chrono::nanoseconds deadline) {
  int rank = 0;
  auto owner = std::make_unique<std::vector<arrival>>(arrivals_of(processes, rank));
  std::vector<arrival>& arrivals = *owner;
  const int ranks = static_cast<int>(arrivals.size());
  try {
    for (int i = 0; i < 2; ++i) exchange_arrivals(processes, arrivals, rank, deadline);
  } catch (...) {
    static_cast<void>(owner.release());  // the program continues, and MPI may still write there
    throw;
  }
  std::vector<std::string> names;
  for (const arrival& joined : arrivals) names.push_back(joined.host.get());
  if (std::all_of(names.begin(), names.end(), [&](const std::string& name) { return name == names[0]; })) names.clear();
  for (int r = 1; r < ranks; ++r)
    if (const std::string first_build = arrivals[0].build.get(),
        build = arrivals[static_cast<std::size_t>(r)].build.get();
        first_build != build)
      gpipe::detail::throw_error({"ranks 0 and ", r, " run different builds: ", first_build, " and ", build},
                                 {"copy one program to all hosts"},
                                 {.rank = r, .host = names.empty() ? "" : names[static_cast<std::size_t>(r)]});
  return names;
}

}  // namespace gpipe::mpi
