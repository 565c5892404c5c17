#pragma once

#include <gpipe/mpi/check.hpp>
#include <gpipe/mpi/shared_status.hpp>
#include <gpipe/mpi/signal.hpp>
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

/// Throws which ranks have not come: those r whose message, `requests[r]`, is not here.
[[noreturn]] GPIPE_COLD inline void throw_not_joined(const std::vector<arrival>& all,
                                                     std::vector<MPI_Request>& requests, int rank,
                                                     std::chrono::nanoseconds deadline) {
  std::string missing, hosts;
  int count = 0;
  for (std::size_t r = 0; r < all.size(); ++r) {
    int here = 0;
    MPI_Test(&requests[r], &here, MPI_STATUS_IGNORE);
    const std::string its = all[r].host.get();
    if (static_cast<int>(r) == rank || here) {
      if (hosts.size() < 200 && (", " + hosts + ",").find(", " + its + ",") == std::string::npos)
        hosts += (hosts.empty() ? "" : ", ") + its;
    } else if (++count <= 8) {
      missing += (count > 1 ? ", " : "") + std::to_string(r) + (its.empty() ? "" : " on host " + its);
    }
  }
  if (count > 8) missing += gpipe::detail::concat({" and ", count - 8, " more"});
  const std::string how_long =
      terminated() ? ", and SIGTERM has come" : " for " + gpipe::detail::duration_text(deadline);
  if (count == 0)
    gpipe::detail::throw_error(
        {"all ", all.size(), " ranks have begun to join the job, and have not joined it", how_long},
        {"see what keeps them, or raise the deadline; they are on ", hosts}, {.rank = rank});
  gpipe::detail::throw_error(
      {count == 1 ? "rank " : "ranks ", missing, count == 1 ? " has" : " have", " not joined the job", how_long},
      {"see what keeps ", count == 1 ? "it" : "them",
       ", and that every process makes an mpi::job, or raise the deadline; the other ranks are on ", hosts},
      {.rank = rank});
}

/// Returns when all requests are complete. Throws after `deadline`, and after SIGTERM, by which mpirun ends the others
/// when one has ended.
GPIPE_COLD inline void await_arrivals(const std::vector<arrival>& all, std::vector<MPI_Request>& requests, int rank,
                                      std::chrono::nanoseconds deadline) {
  using clock = std::chrono::steady_clock;
  const auto begin = clock::now();
  for (int here = 0;;) {
    check(MPI_Testall(static_cast<int>(requests.size()), requests.data(), &here, MPI_STATUSES_IGNORE), "MPI_Testall");
    if (here) return;
    const auto waited = clock::now() - begin;
    if (waited >= deadline || terminated()) throw_not_joined(all, requests, rank, deadline);
    if (waited > std::chrono::milliseconds(1)) std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

/// Every process sends its own element to every other.
GPIPE_COLD inline void exchange_arrivals(MPI_Comm over, std::vector<arrival>& all, int rank,
                                         std::chrono::nanoseconds deadline) {
  const auto index = [](int r) { return static_cast<std::size_t>(r); };
  const int ranks = static_cast<int>(all.size()), tag = arrival_tag();
  std::vector<MPI_Request> requests(2 * all.size(), MPI_REQUEST_NULL);  // receives, then sends
  constexpr int bytes = sizeof(arrival);
  for (int r = 0; r < ranks; ++r)
    if (r != rank) check(MPI_Irecv(&all[index(r)], bytes, MPI_BYTE, r, tag, over, &requests[index(r)]), "MPI_Irecv");
  for (int r = 0; r < ranks; ++r)
    if (r != rank)
      check(MPI_Isend(&all[index(rank)], bytes, MPI_BYTE, r, tag, over, &requests[index(ranks + r)]), "MPI_Isend");
  await_arrivals(all, requests, rank, deadline);
}

/// Returns one for each process of a communicator; this one's own is set.
GPIPE_COLD inline std::vector<arrival> arrivals_of(MPI_Comm processes, int& rank) {
  int ranks = 1;
  MPI_Comm_rank(processes, &rank);
  MPI_Comm_size(processes, &ranks);
  std::vector<arrival> all(static_cast<std::size_t>(ranks));
  arrival& mine = all[static_cast<std::size_t>(rank)];
  char host[MPI_MAX_PROCESSOR_NAME] = "";
  int length = 0;
  check(MPI_Get_processor_name(host, &length), "MPI_Get_processor_name");
  mine.host.set(host);
  mine.build.set(gpipe::detail::build_text());
  return all;
}

/// Returns a copy of a program's communicator when all of its processes have called it; throws like the others.
///
/// A message between two processes could be taken by a receive of the program. Copying is a collective call, which no
/// receive takes, but does not say for which process it waits. So each process also scatters its arrival to all others:
///
///     rank 0   copy   scatter   from 1    from 2
///     rank 1   copy   from 0    scatter   from 2      rank 2 does not come: only what is from 2 stays incomplete
GPIPE_COLD inline MPI_Comm copy_when_joined(MPI_Comm processes, std::chrono::nanoseconds deadline) {
  struct pending {
    std::vector<arrival> all, to_all;  // MPI may read no element twice
    std::vector<int> counts, offsets;
    std::vector<MPI_Request> requests;
    MPI_Comm copy = MPI_COMM_NULL;
  };
  int rank = 0;
  auto made = std::make_unique<pending>();
  made->all = arrivals_of(processes, rank);
  const std::size_t ranks = made->all.size();
  constexpr int bytes = sizeof(arrival);
  made->to_all.assign(ranks, made->all[static_cast<std::size_t>(rank)]);
  made->counts.assign(ranks, bytes);
  for (std::size_t r = 0; r < ranks; ++r) made->offsets.push_back(static_cast<int>(r) * bytes);
  made->requests.assign(ranks + 1, MPI_REQUEST_NULL);
  check(MPI_Comm_idup(processes, &made->copy, &made->requests[ranks]), "MPI_Comm_idup");
  for (std::size_t r = 0; r < ranks; ++r)
    check(MPI_Iscatterv(made->to_all.data(), made->counts.data(), made->offsets.data(), MPI_BYTE,
                        static_cast<int>(r) == rank ? MPI_IN_PLACE : &made->all[r], bytes, MPI_BYTE,
                        static_cast<int>(r), processes, &made->requests[r]),
          "MPI_Iscatterv");
  try {
    await_arrivals(made->all, made->requests, rank, deadline);
  } catch (...) {
    static_cast<void>(made.release());  // the program goes on, and MPI may still write there
    throw;
  }
  MPI_Comm_set_errhandler(made->copy, MPI_ERRORS_RETURN);
  return made->copy;
}

/// Returns the host of each rank when all processes have called it, or no hosts if there is only one. Throws after
/// `deadline` if one does not come, and if the processes run different builds.
///
/// A collective call does not say which process it waits for, so each sends a message to every other, twice: a process
/// that cannot hear one of the others does not come to the second time.
GPIPE_COLD inline std::vector<std::string> await_arrival_of_all(MPI_Comm processes, std::chrono::nanoseconds deadline) {
  int rank = 0;
  auto all_of = std::make_unique<std::vector<arrival>>(arrivals_of(processes, rank));
  std::vector<arrival>& all = *all_of;
  const int ranks = static_cast<int>(all.size());
  try {
    for (int i = 0; i < 2; ++i) exchange_arrivals(processes, all, rank, deadline);
  } catch (...) {
    static_cast<void>(all_of.release());  // the program goes on, and MPI may still write there
    throw;
  }
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
